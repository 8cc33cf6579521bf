"""What autocast does to each function: the table of policies, and the casts of operands.

Inside an autocast region `mode.autocast` holds a `Casts`. The door asks it for every op, and the functions of
the table that are made of several ops ask it once, as a whole. Read next: ops/declare.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cleargrad.autograd.node import AccumulateGrad
from cleargrad.core import dtype as dtypes
from cleargrad.core.dtype import OF_NUMPY
from cleargrad.core.mode import gate, mode
from cleargrad.core.tensor import Tensor, cell_of
from cleargrad.errors import error
from cleargrad.expr.expr import parameters

LOWER = "cast to the region's dtype"
FLOAT32 = "cast to float32"
WIDEST = "cast to the widest dtype among the operands"
WHOLE = "left alone: one kernel in PyTorch, products of matrices here"
REFUSED = "an error"

# By device and policy, the names of PyTorch's functions; those of torch.linalg and torch.fft have a prefix.
TABLE = {
    "cpu": {
        LOWER: """conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d bmm mm linalg_vecdot
            baddbmm addmm addbmm linear matmul prelu scaled_dot_product_attention linalg_multi_dot affine_grid""",
        FLOAT32: """avg_pool3d max_pool3d adaptive_avg_pool3d adaptive_max_pool3d fractional_max_pool2d
            fractional_max_pool3d max_unpool1d max_unpool2d max_unpool3d grid_sampler grid_sample
            grid_sampler_2d grid_sampler_3d polar prod quantile nanquantile stft cdist trace view_as_complex
            cholesky cholesky_inverse cholesky_solve inverse lu_solve orgqr ormqr pinverse geqrf qr svd lu
            triangular_solve binary_cross_entropy binary_cross_entropy_with_logits mse_loss
            cosine_embedding_loss nll_loss hinge_embedding_loss poisson_nll_loss smooth_l1_loss cross_entropy
            l1_loss huber_loss margin_ranking_loss soft_margin_loss triplet_margin_loss multi_margin_loss
            ctc_loss kl_div multilabel_margin_loss reflection_pad1d reflection_pad2d replication_pad1d
            replication_pad2d replication_pad3d fft_fft fft_ifft fft_fft2 fft_ifft2 fft_fftn fft_ifftn fft_rfft
            fft_irfft fft_rfft2 fft_irfft2 fft_rfftn fft_irfftn fft_hfft fft_ihfft linalg_cond
            linalg_matrix_rank linalg_solve linalg_cholesky linalg_cholesky_ex linalg_svdvals linalg_svd
            linalg_eig linalg_eigh linalg_eigvals linalg_eigvalsh linalg_inv linalg_inv_ex linalg_qr
            linalg_lstsq linalg_householder_product linalg_tensorinv linalg_tensorsolve""",
        WIDEST: "stack cat index_copy",
        WHOLE: "bilinear linalg_lu_solve",
    },
    "cuda": {
        LOWER: """conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d conv_tbc prelu addmm
            addmv addr matmul einsum mm mv linalg_vecdot linear addbmm baddbmm bmm chain_matmul
            linalg_multi_dot rnn_tanh_cell rnn_relu_cell lstm_cell gru_cell scaled_dot_product_attention""",
        FLOAT32: """acos asin cosh erfinv exp expm1 log log10 log2 log1p reciprocal rsqrt sinh tan pow softplus
            layer_norm native_layer_norm rms_norm group_norm norm linalg_vector_norm linalg_matrix_norm
            nuclear_norm frobenius_norm cosine_similarity poisson_nll_loss cosine_embedding_loss nll_loss
            hinge_embedding_loss kl_div l1_loss smooth_l1_loss huber_loss mse_loss margin_ranking_loss
            multilabel_margin_loss soft_margin_loss triplet_margin_loss multi_margin_loss
            binary_cross_entropy_with_logits dist pdist cdist renorm logsumexp interpolate prod softmax
            log_softmax cumprod cumsum sum cross_entropy""",
        WIDEST: """addcdiv addcmul atan2 bilinear cross dot vdot grid_sampler grid_sample index_put tensordot
            scatter_add""",
        REFUSED: "binary_cross_entropy",
    },
}
POLICIES = {
    device: {name: policy for policy, names in lists.items() for name in names.split()}
    for device, lists in TABLE.items()
}
NAMED = set().union(*POLICIES.values())

# These ask at their ops' doors alone: small products are frequent, and a function around them is a price.
AT_THE_DOOR = {"mm", "bmm", "linear", "matmul", "addmm", "addbmm", "baddbmm", "sum", "pow", "cat", "stack"}


class Casts:
    """The casts that hold in a region: a lower dtype for each device where autocast is on."""

    def __init__(self, lower: dict[str, dtypes.dtype], cache: dict | None):
        self.lower, self.cache = lower, cache

    def operands(self, name: str, operands: Any) -> Any:
        """The operands of a function as its policy wants them; containers are looked into."""
        for device, lower in self.lower.items():
            policy = POLICIES.get(device, {}).get(name)
            if policy is None or policy is WHOLE:
                continue
            if policy is REFUSED:
                rule = f"torch.nn.functional.{name} is unsafe to autocast: float16 cannot hold its gradient"
                raise error(RuntimeError, name, rule, fix="use binary_cross_entropy_with_logits")
            if policy is WIDEST:
                target = widest(operands, device, lower)
            else:
                target = lower if policy is LOWER else dtypes.float32
            operands = self.converted(operands, device, target)
        return operands

    def converted(self, value: Any, device: str, target: dtypes.dtype) -> Any:
        if isinstance(value, Tensor):
            return self.cast(value, target) if is_eligible(value, device) else value
        if type(value) in (tuple, list):
            return type(value)([self.converted(part, device, target) for part in value])
        if type(value) is dict:
            return {name: self.converted(part, device, target) for name, part in value.items()}
        return value

    def cast(self, tensor: Tensor, target: dtypes.dtype) -> Tensor:
        """A tensor in another dtype; a weight is converted once per region."""
        if tensor._form.dtype == target.numpy:
            return tensor
        is_weight = type(tensor._edge) is AccumulateGrad and tensor._base is None
        if self.cache is None or not is_weight or tensor.dtype is not dtypes.float32:
            return tensor.to(target)
        # What was converted while gradients were off has no history, so it is of no use when they are on.
        key = (id(tensor), target, mode.grad)
        found = self.cache.get(key)
        if found is None or found[1] != cell_of(tensor)[0]:
            found = self.cache[key] = (tensor, cell_of(tensor)[0], tensor.to(target))
        return found[2]

    def call(self, name: str, function: Callable, args: tuple, kwargs: dict) -> Any:
        """Calls a function with its operands cast; what it calls in turn sees no autocast."""
        if not any(name in POLICIES.get(device, {}) for device in self.lower):
            return function(*args, **kwargs)
        args, kwargs = self.operands(name, (args, kwargs))
        return uncast(function, args, kwargs)


def is_eligible(tensor: Tensor, device: str) -> bool:
    kind = OF_NUMPY[tensor._form.dtype]
    return kind.is_floating_point and kind is not dtypes.float64 and tensor.device.type == device


def widest(operands: Any, device: str, lower: dtypes.dtype) -> dtypes.dtype:
    """The widest dtype among the eligible tensors."""
    result = lower
    for tensor in tensors_in(operands):
        if is_eligible(tensor, device):
            result = dtypes.promote_types(result, tensor.dtype)
    return result


def tensors_in(value: Any) -> list[Tensor]:
    if isinstance(value, Tensor):
        return [value]
    parts = value.values() if type(value) is dict else value if type(value) in (tuple, list) else ()
    return [tensor for part in parts for tensor in tensors_in(part)]


def uncast(function: Callable, args: tuple, kwargs: dict) -> Any:
    """Calls a function outside autocast."""
    before = mode.set(autocast=None)
    try:
        return function(*args, **kwargs)
    finally:
        mode.set(**before)


def casting(function: Callable, name: str, spaces: tuple[str, ...]) -> Callable:
    """A function of the table, asking for its casts; any other function stays as it is."""
    prefix = f"{spaces[0]}_" if spaces and spaces[0] in ("linalg", "fft") else ""
    key = prefix + name
    return function if key not in NAMED or key in AT_THE_DOOR else asking(key, function)


def asking(key: str, function: Callable) -> Callable:
    """A function that asks for the casts of its arguments, under a name of the table."""

    def cast_first(*args: Any, **kwargs: Any) -> Any:
        if gate.how or mode.autocast is None:  # the gate is open only while no thread is in a region
            return function(*args, **kwargs)
        return mode.autocast.call(key, function, args, kwargs)

    cast_first.__name__ = cast_first.__qualname__ = function.__name__
    cast_first.__doc__ = function.__doc__
    cast_first.__module__ = function.__module__
    cast_first.parameters = parameters(function)
    cast_first.inner = function
    return cast_first
