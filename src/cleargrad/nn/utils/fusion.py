"""torch.nn.utils.fusion: batch normalisation in evaluation folded into the layer before it.

Read next: nn/utils/memory_format.py.
"""

from __future__ import annotations

import copy

from cleargrad.core.tensor import Tensor
from cleargrad.nn.module import Module
from cleargrad.nn.parameter import Parameter


def folded(
    weight: Tensor,
    bias: Tensor | None,
    mean: Tensor,
    variance: Tensor,
    eps: float,
    scale: Tensor | None,
    shift: Tensor | None,
    dim: int,
) -> tuple[Parameter, Parameter]:
    """Weight and bias of the layer that does both: w · s and (b - mean) · s + shift, with s = scale / deviation."""
    bias = mean.new_zeros(mean.shape) if bias is None else bias
    scale = mean.new_ones(mean.shape) if scale is None else scale
    shift = mean.new_zeros(mean.shape) if shift is None else shift
    factor = scale * (variance + eps).rsqrt()
    sizes = [-1 if k == dim else 1 for k in range(weight.dim())]
    new_weight = (weight * factor.reshape(sizes)).to(weight.dtype)
    new_bias = ((bias - mean) * factor + shift).to(bias.dtype)
    return Parameter(new_weight.detach(), weight.requires_grad), Parameter(
        new_bias.detach(), bias.requires_grad
    )


def fuse_conv_bn_weights(
    conv_w: Tensor,
    conv_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor | None,
    bn_b: Tensor | None,
    transpose: bool = False,
) -> tuple[Parameter, Parameter]:
    """The weight and bias of a convolution with the normalisation behind it."""
    return folded(conv_w, conv_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, 1 if transpose else 0)


def fuse_linear_bn_weights(
    linear_w: Tensor,
    linear_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor,
    bn_b: Tensor,
) -> tuple[Parameter, Parameter]:
    """The weight and bias of a linear layer with the normalisation behind it."""
    return folded(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, 0)


def fuse_conv_bn_eval(conv: Module, bn: Module, transpose: bool = False) -> Module:
    """A copy of the convolution that normalises as well; both must be in evaluation."""
    if conv.training or bn.training:
        raise AssertionError("Fusion only for eval!")
    fused = copy.deepcopy(conv)
    fused.weight, fused.bias = fuse_conv_bn_weights(
        fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias, transpose
    )
    return fused


def fuse_linear_bn_eval(linear: Module, bn: Module) -> Module:
    """A copy of the linear layer that normalises as well; both must be in evaluation."""
    if linear.training or bn.training:
        raise AssertionError("Fusion only for eval!")
    if linear.out_features != bn.num_features and bn.num_features != 1:
        raise AssertionError("To fuse, linear.out_features == bn.num_features or bn.num_features == 1")
    fused = copy.deepcopy(linear)
    fused.weight, fused.bias = fuse_linear_bn_weights(
        fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias
    )
    return fused
