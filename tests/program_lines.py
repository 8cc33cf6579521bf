"""The lines that random programs are made of: values, views, writes and gradients, as Python source.

Each function draws one line from the tensors that exist; some are wrong on purpose and must fail in both.
Where PyTorch's result is undefined (overlapping memory, say) nothing is drawn. Read next: tests/test_fuzz.py.
"""

from __future__ import annotations

import random
from typing import Any

import torch

from tests.programs import DTYPES, SHAPES, Draw, Leaf, Line, Named, Nothing, broadcasts, broadcasts_to

SMOOTH = [
    "exp()", "sin()", "tanh()", "sigmoid()", "square()", "neg()", "erf()", "expm1()", "cos()", "reciprocal()",
]  # fmt: skip
KINKS = [
    "relu()", "abs()", "sign()", "floor()", "clamp(-1, 1)", "clamp(min=0)", "round()", "ceil()", "trunc()",
]  # fmt: skip
REDUCTIONS = [
    "sum", "sum", "mean", "prod", "amax", "amin", "all", "any", "logsumexp", "var", "std", "norm",
]  # fmt: skip
UNARY_WRITES = [
    "exp_()", "relu_()", "clamp_(-1, 1)", "clamp_(min=0)", "clamp_(max=0.5)", "zero_()", "fill_(0.5)",
    "neg_()", "tanh_()", "sigmoid_()", "square_()", "abs_()", "sin_()", "pow_(2)",
]  # fmt: skip
WINDOWS = [((2,), (2,), 0), ((2, 2), (1, 2), 0), ((3,), (1,), 1), ((2, 1), (1, 1), 2)]  # for as_strided


# Values ----------------------------------------------------------------------------------------------------


def arithmetic(d: Draw) -> str:
    x = d.tensor()
    y, sign = d.other(x), d.choice(["+", "-", "*", "+", "*", "/", "//", "%", "**"])
    if sign == "**":
        return f"{x} ** {d.choice([2, 2.0, 3, 1, 0])}"
    if sign == "//":
        # PyTorch has no gradient for `//`, ours is zero.
        rounded = f"T.div({x}, 0.5, rounding_mode='{d.choice(['floor', 'trunc'])}')"
        return d.choice([rounded, f"{x}.detach() // 2"])
    if sign in ("/", "%"):
        return f"{x} {sign} {d.choice([2, 4, 0.5, -2])}"
    return f"{y} {sign} {x}" if d.chance(0.3) else f"{x} {sign} {y}"


def division(d: Draw) -> str:
    x = d.tensor()
    return f"{x} / ({d.like(x)}.abs() + 0.5)"


def unary(d: Draw) -> str:
    x = d.tensor(floating=True)
    return f"{x}.{d.choice(SMOOTH if d.chance(0.65) else KINKS)}"


def guarded(d: Draw) -> str:
    x = d.tensor(floating=True)
    return d.choice([f"({x}.abs() + 0.5).log()", f"({x}.square() + 0.25).sqrt()", f"({x}.abs() + 1).rsqrt()"])


def comparison(d: Draw) -> str:
    x = d.tensor()
    return f"{x} {d.choice(['<', '<=', '==', '!=', '>', '>='])} {d.other(x)}"


def extremes(d: Draw) -> str:
    x = d.tensor()
    return f"T.{d.choice(['maximum', 'minimum'])}({x}, {d.like(x)})"


def reduction(d: Draw) -> str:
    name = d.choice(REDUCTIONS)
    x = d.tensor(floating=name in ("mean", "logsumexp", "var", "std", "norm"))
    if name == "prod" and min(x.shape, default=1) < 2:
        raise Nothing  # PyTorch's product of one element has no second gradient, instead of zero
    if d.chance(0.3) and name != "logsumexp":
        return f"{x}.{name}()"
    keep = d.choice([True, False])
    if name == "norm":
        return f"{x}.norm({d.choice([1, 2, 2.0])}, dim={d.dim(x)}, keepdim={keep})"
    several = name in ("sum", "mean", "amax", "amin", "logsumexp", "var") and x.ndim > 1 and d.chance(0.3)
    dim = tuple(d.permutation(x)[:2]) if several else d.dim(x)
    return f"{x}.{name}(dim={dim}, keepdim={keep})"


def extreme_place(d: Draw) -> str:
    x = d.tensor()
    # PyTorch's cummax hands out the tensor itself as the gradient of nothing.
    dim, name = d.dim(x), d.choice(["max", "min", "sort", "cummax" if x.tensor.numel() else "sort"])
    part = d.choice(["values", "values", "indices"])
    return f"{x}.{name}(dim={dim}{', stable=True' if name == 'sort' else ''}).{part}"


def along(d: Draw) -> str:
    x = d.tensor(floating=True)
    dim, name = d.dim(x), d.choice(["softmax", "log_softmax", "cumsum", "cumprod", "logcumsumexp"])
    if d.extent(x, dim) < 2 or not x.tensor.numel():
        raise Nothing  # PyTorch's scans have no second gradient then, instead of zero
    return f"{x}.{name}(dim={dim})"


def product(d: Draw) -> str:
    x = d.tensor(dims=1, floating=True)
    inner = x.shape[-1]

    def fits(y: Named) -> bool:
        same = y.dtype == x.dtype and y.ndim >= 1
        return same and y.shape[-2 if y.ndim > 1 else -1] == inner and broadcasts(x.shape[:-2], y.shape[:-2])

    if d.chance(0.4) and x.ndim > 1:
        return f"{x} @ {x}.transpose(-1, -2)"
    return f"T.matmul({x}, {d.tensor(keep=fits)}).clone()"  # PyTorch returns some of them at version 1


def joined(d: Draw) -> str:
    x = d.tensor(dims=1, keep=lambda x: x.shape != (0,))  # which cat takes along any dimension
    parts = [x] + [d.like(x, exact=True) for _ in range(d.int(0, 2))]
    listed = "[" + ", ".join(map(str, parts)) + "]"
    return f"T.{d.choice(['cat', 'stack'])}({listed}, {d.dim(x)})"


def choice(d: Draw) -> str:
    x = d.tensor()
    masks = [y for y in d.all if y.dtype == "bool" and broadcasts(y.shape, x.shape)]
    condition = d.choice(masks) if masks and d.chance(0.5) else f"({d.like(x)} > 0)"
    return f"T.where({condition}, {x}, {d.other(x)})"


def gathered(d: Draw) -> str:
    x = d.tensor(dims=1)
    dim = d.int(0, x.ndim - 1)
    if not x.shape[dim]:
        raise Nothing
    shape = list(x.shape)
    shape[dim] = d.int(1, 3)
    index = d.integers(tuple(shape), x.shape[dim])
    return d.choice(
        [
            f"{x}.gather({dim}, {index})",
            f"{x}.index_select({dim}, {d.integers((2,), x.shape[dim])})",
            f"T.take_along_dim({x}, {index}, {dim})",
            f"{x}.roll({d.int(-2, 2)}, {dim})",
            f"{x}.flip({dim})",
        ]
    )


def scattered(d: Draw) -> str:
    x = d.tensor(dims=1)
    dim = d.int(0, x.ndim - 1)
    if not x.tensor.numel():
        raise Nothing
    y = d.tensor(keep=lambda y: y.shape == x.shape and y.dtype == x.dtype)
    unique = d.rng.sample(range(x.shape[dim]), min(2, x.shape[dim]))
    return d.choice(
        [
            f"{x}.scatter_add({dim}, {d.integers(x.shape, x.shape[dim])}, {y})",
            f"{x}.scatter({dim}, {d.integers(x.shape, x.shape[dim])}, 0.5)",
            f"{x}.index_add({dim}, T.tensor({unique}), {y}.narrow({dim}, 0, {len(unique)}))",
            f"{x}.index_copy({dim}, T.tensor({unique}), {y}.narrow({dim}, 0, {len(unique)}))",
            f"{x}.masked_fill({d.mask(x.shape)}, {d.number()})",
        ]
    )


def copied(d: Draw) -> str:
    x = d.tensor()
    kinds = ["clone()", "contiguous()", "float()", "double()", "to(T.float64)", "long()", "bool()"]
    return f"{x}.{d.choice(kinds + ['clone()'] * 4)}"


def made(d: Draw) -> str:
    x = d.tensor()
    return f"T.{d.choice(['zeros_like', 'ones_like'])}({x})"


def chosen(d: Draw) -> str:
    x = d.tensor(dims=1)
    return f"{x}[{d.index(x, arrays=True)}]"


def triangle(d: Draw) -> str:
    return f"{d.tensor(dims=2)}.{d.choice(['tril', 'triu'])}({d.int(-1, 1)})"


def three(d: Draw) -> str:
    x = d.tensor(floating=True)
    y = d.tensor(keep=lambda y: y.dtype == x.dtype and broadcasts(x.shape, y.shape))
    return d.choice([f"T.addcmul({x}, {y}, {y})", f"T.lerp({x}, {y}, {y})", f"{x}.hypot({y} + 3)"])


def masked(d: Draw) -> str:
    x = d.tensor(dims=1)
    chosen = [f"{x}[{x} > 0]", f"{x}.masked_select({d.mask(x.shape)})", f"{x}[{d.mask(x.shape[:1])}]"]
    return d.choice([*chosen, f"{x}.nonzero()"])


# Views -----------------------------------------------------------------------------------------------------


def sliced(d: Draw) -> str:
    x = d.tensor()
    return f"{x}[{d.index(x)}]"


def part(d: Draw) -> str:
    x = d.tensor(dims=1)
    dim = d.dim(x)
    n = d.extent(x, dim)
    if n == 0:
        return f"{x}.narrow({dim}, 0, 0)"
    start = d.int(0, n - 1)
    return d.choice(
        [
            f"{x}.select({dim}, {d.int(-n, n - 1)})",
            f"{x}.narrow({dim}, {start}, {d.int(0, n - start)})",
            f"{x}.chunk({d.int(1, 3)}, {dim})[0]",
            f"{x}.split({d.int(1, 3)}, {dim})[-1]",
            f"{x}.unbind({dim})[{d.int(-n, n - 1)}]",
            f"{x}.unfold({dim}, {d.int(1, n)}, {d.int(1, 2)})",
        ]
    )


def turned(d: Draw) -> str:
    x = d.tensor(dims=1)
    return d.choice(
        [
            f"{x}.transpose({d.dim(x)}, {d.dim(x)})",
            f"{x}.permute({d.permutation(x)})",
            f"{x}.mT" if x.ndim > 1 else f"{x}.view_as({x})",
            f"{x}.movedim({d.dim(x)}, {d.dim(x)})",
        ]
    )


def sized(d: Draw) -> str:
    x = d.tensor()
    larger = [d.choice([2, 3]) if n == 1 and d.chance(0.5) else d.choice([n, -1]) for n in x.shape]
    return d.choice(
        [
            f"{x}.squeeze()",
            f"{x}.squeeze({d.dim(x)})",
            f"{x}.unsqueeze({d.int(-x.ndim - 1, x.ndim)})",
            f"{x}.expand({larger})",
            f"{x}.expand({[2, *x.shape]})",
        ]
    )


def reshaped(d: Draw) -> str:
    x = d.tensor()
    return f"{x}.{d.choice(['reshape', 'reshape', 'view'])}({d.reshaped(x)})"


def flattened(d: Draw) -> str:
    return f"{d.tensor()}.{d.choice(['flatten()', 'ravel()'])}"


def diagonal(d: Draw) -> str:
    x = d.tensor(dims=2)
    first, second = d.rng.sample(range(x.ndim), 2)
    return f"{x}.diagonal({d.int(-1, 1)}, {first}, {second})"


def strided(d: Draw) -> str:
    """Windows without overlap inside a contiguous tensor."""
    x = d.tensor(keep=lambda x: x.tensor.is_contiguous() and x.tensor.numel() >= 4)
    count = x.tensor.numel()
    size, stride, offset = d.choice(WINDOWS)
    if d.chance(0.2):
        size, stride = (2, 2), (1, 1)
    offset += x.tensor.storage_offset()
    if count >= 4 and d.chance(0.98):
        return f"{x}.as_strided({size}, {stride}, {offset})"
    return f"{x}.as_strided((5, 99), (99, 1))"


def detached(d: Draw) -> str:
    return f"{d.tensor()}.detach()"


# Writes ----------------------------------------------------------------------------------------------------


def target(d: Draw, **wishes: Any) -> Named:
    """Mostly one that may be written."""
    refused = d.chance(0.1)
    x = d.tensor(**wishes, keep=lambda x: refused or not protected(x.tensor))
    if overlaps(x.tensor):
        raise Nothing  # what PyTorch writes then depends on the order of its loops
    return x


def protected(x: torch.Tensor) -> bool:
    """Whether it is, or looks into, a leaf that needs a gradient."""
    whole = x._base if x._is_view() else x
    return whole.is_leaf and whole.requires_grad


def overlaps(x: torch.Tensor) -> bool:
    """Whether two elements are one, other than along an expanded dimension, which both libraries refuse."""
    if x.is_contiguous() or any(n > 1 and step == 0 for n, step in zip(x.shape, x.stride(), strict=True)):
        return False
    places = torch.zeros((), dtype=torch.int64)
    for n, step in zip(x.shape, x.stride(), strict=True):
        places = places.unsqueeze(-1) + torch.arange(n) * step
    return places.unique().numel() < x.numel()


def written(x: Named, y: Any) -> Any:
    """A value that x can take: without history into whole numbers, and not from other parts of x."""
    if not isinstance(y, Named):
        return y
    if y.tensor.requires_grad and not x.dtype.startswith("float"):
        return f"{y}.detach().clone()"
    same = x.tensor.data_ptr() == y.tensor.data_ptr() and x.tensor.stride() == y.tensor.stride()
    return y if same and y.shape == x.shape else apart(x, y)


def apart(x: Named, y: Named) -> str:
    """A value with memory of its own."""
    shared = x.tensor.untyped_storage().data_ptr() == y.tensor.untyped_storage().data_ptr()
    return f"{y}.clone()" if shared else str(y)


def write(d: Draw) -> str:
    x = target(d)
    name = d.choice(["add_", "sub_", "mul_", "copy_", "add_", "mul_", "div_"])
    if name == "div_":
        return f"{x}.div_({d.choice([2, 4.0, -0.5])})"
    value = d.source_for(x)
    if name == "copy_" and not isinstance(value, Named):
        return f"{x}.fill_({value})"
    return f"{x}.{name}({written(x, value)})"


def write_operator(d: Draw) -> str:
    x = target(d)
    return f"{x} {d.choice(['+=', '-=', '*='])} {written(x, d.source_for(x))}"


def write_unary(d: Draw) -> str:
    x = target(d, floating=True)
    return f"{x}.{d.choice(UNARY_WRITES)}"


def write_item(d: Draw) -> str:
    x = target(d)
    index = d.index(x, arrays=d.chance(0.5))
    if d.chance(0.15):
        index = d.mask(x.shape) if d.chance(0.6) or not x.ndim else d.mask(x.shape[:1])
    try:
        shape = tuple(eval(f"x[{index}]", {"x": x.tensor.detach(), "T": torch}).shape)
    except Exception:
        return f"{x}[{index}] = {d.number()}"
    if d.chance(0.5):
        values = [y for y in d.all if broadcasts_to(y.shape, shape)]
        if values:
            value = d.choice(values)
            shared = apart(x, value) != str(value)
            return f"{x}[{index}] = {f'{value}.detach().clone()' if shared else written(x, value)}"
    if d.chance(0.2):
        return f"{x}[{index}] *= 2"
    return f"{x}[{index}] = {d.number()}"


def write_places(d: Draw) -> str:
    x = target(d, dims=1)
    dim = d.int(0, x.ndim - 1)
    n = x.shape[dim]
    if not x.tensor.numel():
        raise Nothing
    same = [y for y in d.all if y.shape == x.shape and y.dtype == x.dtype]
    y = apart(x, d.choice(same))
    unique = d.rng.sample(range(n), min(2, n))
    return d.choice(
        [
            f"{x}.masked_fill_({d.mask(x.shape)}, {d.number()})",
            f"{x}.scatter_({dim}, {d.integers((1,) * x.ndim, n)}, {y})",
            f"{x}.scatter_add_({dim}, {d.integers(x.shape, n)}, {y})",
            f"{x}.index_fill_({dim}, T.tensor({unique}), 0.5)",
            f"{x}.index_add_({dim}, T.tensor({unique}), {y}.narrow({dim}, 0, {len(unique)}))",
            f"{x}.index_copy_({dim}, T.tensor({unique}), {y}.narrow({dim}, 0, {len(unique)}))",
            f"{x}.masked_scatter_({d.mask(x.shape)}, {y})",
            f"{x}.index_put_((T.tensor([0, -1]),), {x}.new_ones(()), accumulate={d.choice([True, False])})",
            f"{x}.addcmul_({y}, {y})",
            f"{x}.lerp_({y}, {y})",
            f"{x}.cumsum_({dim})" if x.dtype != "bool" else f"{x}.logical_not_()",
        ]
    )


def write_view(d: Draw) -> str:
    """A write through a view that has no name of its own."""
    x = target(d, dims=1)
    views = [f"{x}[{d.index(x)}]", f"{x}.transpose(0, -1)", f"{x}.unsqueeze(0)"]
    view = d.choice([*views, f"{x}.diagonal()" if x.ndim > 1 else f"{x}[::2]"])
    writes = ["mul_(2)", "add_(1)", "zero_()", "exp_()", "relu_()", f"copy_({written(x, d.tensor())})"]
    return f"{view}.{d.choice(writes)}"


def state(d: Draw) -> str:
    x = d.tensor(floating=True)
    if x.tensor._is_view() or any(y.tensor._is_view() and y.tensor._base is x.tensor for y in d.all):
        return f"{x}.retain_grad()"
    if x.tensor.is_leaf and not x.tensor.requires_grad and int(x.name[1:]) < 5:
        raise Nothing  # a leaf that was detached and is one again: PyTorch's autograd.grad finds it in old graphs
    return f"{x}.{d.choice(['retain_grad()', 'detach_()', 'requires_grad_()'])}"


# Backward --------------------------------------------------------------------------------------------------


def root(d: Draw) -> Named:
    return d.tensor(keep=lambda x: x.tensor.requires_grad and not (x.tensor.is_leaf and d.chance(0.9)))


def weights(y: Named) -> str:
    count = y.tensor.numel()
    return f"T.tensor({[0.5 + 0.25 * (k % 5) for k in range(count)]}, dtype=T.{y.dtype}).reshape({y.shape})"


def backward(d: Draw) -> str:
    y = root(d)
    option = d.choice(["", "", ", retain_graph=True", ", retain_graph=True", ", create_graph=True"])
    if y.shape == () and d.chance(0.5):
        return f"{y}.backward({option.removeprefix(', ')})"
    return f"{y}.backward({weights(y)}{option})"


def gradient(d: Draw) -> str:
    y = root(d)
    x = d.tensor(keep=lambda x: x.tensor.requires_grad)
    option = d.choice(["create_graph=True", "create_graph=True", "retain_graph=True"])
    return f"T.autograd.grad({y}, {x}, {weights(y)}, {option})[0].clone()"


def kept_gradient(d: Draw) -> str:
    return f"{d.tensor(keep=lambda x: x.tensor.is_leaf and x.tensor.grad is not None)}.grad.clone()"


# Programs --------------------------------------------------------------------------------------------------

VALUES = [
    arithmetic, arithmetic, arithmetic, division, unary, unary, guarded, comparison, extremes, reduction,
    reduction, extreme_place, along, product, joined, choice, gathered, scattered, copied, made, chosen,
    triangle, three,
]  # fmt: skip
VIEWS = [sliced, sliced, part, part, turned, sized, reshaped, flattened, diagonal, strided, detached]
WRITES = [
    write, write, write, write_operator, write_unary, write_unary, write_item, write_item, write_places,
    write_view,
]  # fmt: skip
RARE = [masked, state, kept_gradient, gradient, backward]
KINDS = [("value", VALUES), ("view", VIEWS), ("write", WRITES), ("rare", RARE)]
WEIGHTS = [38, 26, 28, 8]


def draw_leaves(rng: random.Random) -> list[Leaf]:
    leaves = []
    for number in range(rng.randint(2, 5)):
        dtype = rng.choice(DTYPES) if number else "float64"
        needs_grad = dtype.startswith("float") and rng.random() < 0.7
        # One shape often comes again, so that tensors fit one another.
        shape = leaves[0].shape if leaves and rng.random() < 0.4 else rng.choice(SHAPES)
        leaves.append(Leaf(f"t{number}", shape, dtype, needs_grad, rng.randrange(2**32)))
    return leaves


def draw_line(rng: random.Random, tensors: dict[str, torch.Tensor], grad: bool, name: str) -> Line:
    """The next line of a program in which these tensors exist; `name` is free."""
    while True:
        kind, makers = rng.choices(KINDS, WEIGHTS)[0]
        maker = rng.choice(makers)
        try:
            source = maker(Draw(rng, tensors))
        except Nothing:
            continue
        if maker is backward:
            return Line(source, None, grad, "backward")
        if kind == "write" or maker is state:
            bare = maker in (write, write_unary) and rng.random() < 0.1
            return Line(source, name if bare else None, grad, "write")
        return Line(source, name, grad, "backward" if maker is gradient else kind)


def last_line(rng: random.Random, tensors: dict[str, torch.Tensor]) -> Line | None:
    """The backward that ends a program, when anything needs a gradient."""
    try:
        return Line(backward(Draw(rng, tensors)), None, True, "backward")
    except Nothing:
        return None
