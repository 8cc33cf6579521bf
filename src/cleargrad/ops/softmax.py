"""Softmax and log-softmax along a dimension.

The adjoint of each is an op of its own, and closed: its gradient is written with itself. Read next:
ops/loss.py.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator

from cleargrad.core.dtype import FLOAT, OF_NUMPY
from cleargrad.core.dtype import dtype as Dtype
from cleargrad.core.shape import Spec, wrap_dim
from cleargrad.core.tensor import Tensor
from cleargrad.errors import error
from cleargrad.ops.declare import F32, composite, face, fused
from cleargrad.ops.samples import Fails, Sample, real, whole
from cleargrad.ops.views import check_tensor


def softmax_parts(x: Tensor, *, dim: int) -> Tensor:
    if not x._form.size:
        return x
    exponential = (x - x.amax(dim, True)).exp()
    return exponential / exponential.sum(dim, True)


def log_softmax_parts(x: Tensor, *, dim: int) -> Tensor:
    if not x._form.size:
        return x
    shifted = x - x.amax(dim, True)
    return shifted - shifted.exp().sum(dim, True).log()


def softmax_spec(name: str) -> Callable:
    def spec(x: Tensor, *, dim: int) -> Spec:
        kind = OF_NUMPY[x._form.dtype]
        if kind.category != FLOAT and x._form.size:
            raise error(NotImplementedError, name, f"not implemented for {kind}", input=x, fix="pass dtype=")
        return Spec(x._form.shape, kind)

    return spec


def softmax_samples() -> Iterator[Sample]:
    yield Sample(real(3, 4), 1)
    yield Sample(real(3, 4), 0)
    yield Sample(real(2, 3, 4), -2)
    yield Sample(real(), 0)
    yield Sample(real(0, 3), 1)
    yield Sample(whole(2, 3), -1, dtype=OF_NUMPY[F32])
    yield Fails(IndexError, real(3, 4), 2)
    yield Fails(RuntimeError, whole(3, 4), 1)
    yield Fails(TypeError, real(3, 4), "a")


def adjoint_samples() -> Iterator[Sample]:
    yield Sample(real(3, 4), real(3, 4, low=0, high=1, seed=1), dim=1)
    yield Sample(real(3, 4), real(3, 4, low=0, high=1, seed=1), dim=0)


def adjoint_spec(grad: Tensor, out: Tensor, *, dim: int) -> Spec:
    return Spec(out._form.shape, out.dtype)


softmax_backward = fused(
    "softmax_backward",
    lambda grad, out, *, dim: out * (grad - (grad * out).sum(dim, True)),
    spec=adjoint_spec,
    vjp=(
        lambda g, out, *, dim: softmax_backward(g, out, dim=dim),
        lambda g, grad, out, *, dim: (
            g * (grad - (grad * out).sum(dim, True)) - grad * (g * out).sum(dim, True)
        ),
    ),
    samples=adjoint_samples,
)
log_softmax_backward = fused(
    "log_softmax_backward",
    lambda grad, out, *, dim: grad - out.exp() * grad.sum(dim, True),
    spec=adjoint_spec,
    vjp=(
        lambda g, out, *, dim: g - (g * out.exp()).sum(dim, True),
        lambda g, grad, out, *, dim: -g * out.exp() * grad.sum(dim, True),
    ),
    samples=adjoint_samples,
)
softmax_op = fused(
    "softmax",
    softmax_parts,
    spec=softmax_spec("softmax"),
    vjp=lambda g, out, *, dim: softmax_backward(g, out, dim=dim),
    samples=softmax_samples,
)
log_softmax_op = fused(
    "log_softmax",
    log_softmax_parts,
    spec=softmax_spec("log_softmax"),
    vjp=lambda g, out, *, dim: log_softmax_backward(g, out, dim=dim),
    samples=softmax_samples,
)


def along(door: Callable, input: Tensor, dim: int, dtype: Dtype | None) -> Tensor:
    name = door.op.name
    check_tensor(name, input)
    if dtype is not None:
        input = input.to(dtype)
    return door(input, dim=wrap_dim(name, dim, input._form.ndim))


@face(softmax_op, method=True, out=True)
def softmax(input: Tensor, dim: int, dtype: Dtype | None = None) -> Tensor:
    """exp(x) / Σ exp(x) along a dimension."""
    return along(softmax_op, input, dim, dtype)


@face(log_softmax_op, method=True, out=True)
def log_softmax(input: Tensor, dim: int, dtype: Dtype | None = None) -> Tensor:
    """x − log Σ exp(x) along a dimension: the logarithm of softmax, where softmax itself would underflow."""
    return along(log_softmax_op, input, dim, dtype)


# The forms in torch.nn.functional, which may choose the dimension themselves -------------------------------


def implicit_dim(name: str, rank: int, stacklevel: int) -> int:
    warnings.warn(
        f"Implicit dimension choice for {name} has been deprecated. "
        "Change the call to include dim=X as an argument.",
        UserWarning,
        stacklevel=stacklevel + 1,
    )
    return 0 if rank in (0, 1, 3) else 1


def functional(name: str, compute: Callable, doc: str) -> Callable:
    """`name(input, dim=None, _stacklevel=3, dtype=None)`."""

    def chosen(
        input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Dtype | None = None
    ) -> Tensor:
        check_tensor(name, input)
        if dim is None:
            dim = implicit_dim(name, input._form.ndim, _stacklevel - 1)
        return compute(input, dim, dtype)

    chosen.__name__ = chosen.__qualname__ = name
    chosen.__doc__ = doc
    return composite(softmax_samples, spaces=("nn.functional",))(chosen)


functional("softmax", softmax, "exp(x) / Σ exp(x) along a dimension.")
functional("log_softmax", log_softmax, "x − log Σ exp(x) along a dimension.")
functional("softmin", lambda input, dim, dtype: softmax(-input, dim, dtype), "softmax of −x.")


def gumbel_samples() -> Iterator[Sample]:
    yield Sample(real(3, 4))
    yield Sample(real(3, 4), 0.5, dim=0)


@composite(gumbel_samples, spaces=("nn.functional",))
def gumbel_softmax(
    logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1
) -> Tensor:
    """A draw from softmax(logits) with a gradient; with `hard`, a one-hot value with the soft gradient."""
    if eps != 1e-10:
        warnings.warn("`eps` parameter is deprecated and has no effect.", stacklevel=2)
    noise = -logits.new_empty(logits._form.shape).exponential_().log()
    soft = softmax((logits + noise) / tau, dim)
    if not hard:
        return soft
    index = soft.max(dim, keepdim=True)[1]
    one_hot = logits.new_zeros(logits._form.shape).scatter_(dim, index, 1.0)
    return one_hot - soft.detach() + soft
