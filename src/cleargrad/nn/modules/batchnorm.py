"""Batch normalisation with running statistics, and what it shares with instance normalisation.

Read next: nn/modules/instancenorm.py.
"""

from __future__ import annotations

from typing import Any

from cleargrad.core import dtype as dtypes
from cleargrad.core.tensor import Tensor
from cleargrad.errors import error
from cleargrad.nn import functional as F
from cleargrad.nn import init
from cleargrad.nn.module import Module
from cleargrad.nn.modules.lazy import LazyModuleMixin
from cleargrad.nn.parameter import Parameter, UninitializedBuffer, UninitializedParameter
from cleargrad.ops.creation import empty, ones, tensor, zeros


class _NormBase(Module):
    """A weight and bias per channel, and running statistics; each of them may be absent."""

    _version = 2
    __constants__ = ["track_running_stats", "momentum", "eps", "num_features", "affine"]
    ranks: tuple[int, ...] = ()  # of the inputs that forward takes; empty: any
    weight: Any
    bias: Any
    running_mean: Any
    running_var: Any
    num_batches_tracked: Any

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats
        factory = {"device": device, "dtype": dtype}
        self._set_parameters(affine, affine and bias, factory)
        self._set_statistics(track_running_stats, factory)
        self.reset_parameters()

    def _set_parameters(self, weight: bool, bias: bool, factory: dict) -> None:
        for name, wanted in (("weight", weight), ("bias", bias)):
            self.register_parameter(name, Parameter(empty(self.num_features, **factory)) if wanted else None)

    def _set_statistics(self, wanted: bool, factory: dict) -> None:
        self.register_buffer("running_mean", zeros(self.num_features, **factory) if wanted else None)
        self.register_buffer("running_var", ones(self.num_features, **factory) if wanted else None)
        count = tensor(0, dtype=dtypes.int64, device=factory["device"]) if wanted else None
        self.register_buffer("num_batches_tracked", count)

    def reset_running_stats(self) -> None:
        """Forgets the batches seen so far."""
        if self.track_running_stats:
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()

    def reset_parameters(self) -> None:
        """Ones for weights, zeros for biases, no statistics."""
        self.reset_running_stats()
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def _check_input_dim(self, input: Tensor) -> None:
        if self.ranks and input.dim() not in self.ranks:
            expected = " or ".join(f"{rank}D" for rank in self.ranks)
            rule = f"expected {expected} input (got {input.dim()}D input)"
            raise error(ValueError, type(self).__name__, rule, input=input)

    def extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"bias={self.bias is not None}, track_running_stats={self.track_running_stats}"
        )

    def _load_from_state_dict(
        self,
        state_dict: Any,
        prefix: str,
        local_metadata: dict,
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        version, key = local_metadata.get("version"), prefix + "num_batches_tracked"
        if (version is None or version < 2) and self.track_running_stats and key not in state_dict:
            # States of version 1 did not count batches.
            state_dict[key] = self.num_batches_tracked.clone()
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )


class _BatchNorm(_NormBase):
    """The forward of batch norms: statistics of the batch in training, running ones in evaluation."""

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        use_batch = self.training or (self.running_mean is None and self.running_var is None)
        keep = not self.training or self.track_running_stats
        return F.batch_norm(
            input,
            self.running_mean if keep else None,
            self.running_var if keep else None,
            self.weight,
            self.bias,
            use_batch,
            self._next_factor(),
            self.eps,
        )

    def _next_factor(self) -> float:
        """The share of this batch in the running statistics; counts the batch in training."""
        if not self.training or not self.track_running_stats or self.num_batches_tracked is None:
            return 0.0 if self.momentum is None else self.momentum
        self.num_batches_tracked.add_(1)
        if self.momentum is None:
            return 1.0 / float(self.num_batches_tracked)
        return self.momentum


class BatchNorm1d(_BatchNorm):
    """Batch normalisation of (N, C) or (N, C, L)."""

    ranks = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Batch normalisation of (N, C, H, W)."""

    ranks = (4,)


class BatchNorm3d(_BatchNorm):
    """Batch normalisation of (N, C, D, H, W)."""

    ranks = (5,)


class SyncBatchNorm(_BatchNorm):
    """Batch normalisation over the batches of all processes; there is one process here."""

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        process_group: Any = None,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)
        self.process_group = process_group

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() < 2:
            rule = f"expected at least 2D input (got {input.dim()}D input)"
            raise error(ValueError, "SyncBatchNorm", rule, input=input)
        if input.size(1) == 0:
            rule = "SyncBatchNorm number of input channels should be non-zero"
            raise error(ValueError, "SyncBatchNorm", rule, input=input)

    @classmethod
    def convert_sync_batchnorm(cls, module: Module, process_group: Any = None) -> Module:
        """A network whose batch norms are replaced by SyncBatchNorm with the same parameters."""
        result = module
        if isinstance(module, _BatchNorm):
            result = cls(
                module.num_features,
                module.eps,
                module.momentum,
                module.affine,
                module.track_running_stats,
                process_group,
                bias=module.bias is not None,
            )
            for name in ("weight", "bias"):
                if getattr(module, name) is not None:
                    setattr(result, name, getattr(module, name))
            for name in ("running_mean", "running_var", "num_batches_tracked"):
                setattr(result, name, getattr(module, name))
            result.training = module.training
        for name, child in module.named_children():
            result.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        return result


# Lazy ------------------------------------------------------------------------------------------------------


class _LazyNormBase(LazyModuleMixin, _NormBase):
    """A norm that takes num_features from its first input."""

    def __init__(
        self,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(0, eps, momentum, False, False, device, dtype, bias=bias)
        self.affine = affine
        self.track_running_stats = track_running_stats
        factory = {"device": device, "dtype": dtype}
        for name, wanted in (("weight", affine), ("bias", affine and bias)):
            if wanted:
                setattr(self, name, UninitializedParameter(**factory))
        if track_running_stats:
            self.running_mean = UninitializedBuffer(**factory)
            self.running_var = UninitializedBuffer(**factory)
            self.num_batches_tracked = tensor(0, dtype=dtypes.int64, device=device)

    def reset_parameters(self) -> None:
        if not self.has_uninitialized_params() and self.num_features != 0:
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor) -> None:  # type: ignore[override]
        if not self.has_uninitialized_params():
            return
        self.num_features = input.shape[1]
        for value in (self.weight, self.bias, self.running_mean, self.running_var):
            if value is not None:
                value.materialize((self.num_features,))
        self.reset_parameters()


class LazyBatchNorm1d(_LazyNormBase, _BatchNorm):
    """BatchNorm1d that takes num_features from its first input."""

    cls_to_become = BatchNorm1d
    ranks = (2, 3)


class LazyBatchNorm2d(_LazyNormBase, _BatchNorm):
    """BatchNorm2d that takes num_features from its first input."""

    cls_to_become = BatchNorm2d
    ranks = (4,)


class LazyBatchNorm3d(_LazyNormBase, _BatchNorm):
    """BatchNorm3d that takes num_features from its first input."""

    cls_to_become = BatchNorm3d
    ranks = (5,)
