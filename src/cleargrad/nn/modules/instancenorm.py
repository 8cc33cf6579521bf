"""Instance normalisation: every channel of every sample by its own statistics.

Read next: nn/modules/normalization.py.
"""

from __future__ import annotations

import warnings
from typing import Any

from cleargrad.core.tensor import Tensor
from cleargrad.errors import error
from cleargrad.nn import functional as F
from cleargrad.nn.modules.batchnorm import _LazyNormBase, _NormBase


class _InstanceNorm(_NormBase):
    """The forward of instance norms; the batch dimension may be absent."""

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        self._check_features(input)
        if input.dim() == self.ranks[0]:  # without a batch dimension
            return self._apply_instance_norm(input.unsqueeze(0)).squeeze(0)
        return self._apply_instance_norm(input)

    def _check_features(self, input: Tensor) -> None:
        dim = input.dim() - self.ranks[0]
        if input.size(dim) == self.num_features:
            return
        if self.affine:
            rule = f"expected input's size at dim={dim} to match num_features ({self.num_features})"
            raise error(ValueError, type(self).__name__, f"{rule}, but got: {input.size(dim)}.", input=input)
        warnings.warn(
            f"input's size at dim={dim} does not match num_features. You can silence this warning by not "
            "passing in num_features, which is not used because affine=False",
            stacklevel=3,
        )

    def _apply_instance_norm(self, input: Tensor) -> Tensor:
        return F.instance_norm(
            input,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or not self.track_running_stats,
            0.0 if self.momentum is None else self.momentum,
            self.eps,
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
        if local_metadata.get("version") is None and not self.track_running_stats:
            self._refuse_old_statistics(state_dict, prefix, error_msgs)
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )

    def _refuse_old_statistics(self, state_dict: Any, prefix: str, error_msgs: list[str]) -> None:
        """States from before running statistics were optional hold them although nobody reads them."""
        found = [prefix + name for name in ("running_mean", "running_var") if prefix + name in state_dict]
        if not found:
            return
        error_msgs.append(
            f"Unexpected running stats buffer(s) {' and '.join(repr(key) for key in found)} for "
            f"{type(self).__name__} with track_running_stats=False. If state_dict is a checkpoint saved "
            "before 0.4.0, this may be expected because this option was added in 0.4.0; remove these keys "
            "from state_dict."
        )
        for key in found:
            state_dict.pop(key)


class InstanceNorm1d(_InstanceNorm):
    """Instance normalisation of (N, C, L) or (C, L)."""

    ranks = (2, 3)


class InstanceNorm2d(_InstanceNorm):
    """Instance normalisation of (N, C, H, W) or (C, H, W)."""

    ranks = (3, 4)


class InstanceNorm3d(_InstanceNorm):
    """Instance normalisation of (N, C, D, H, W) or (C, D, H, W)."""

    ranks = (4, 5)


class LazyInstanceNorm1d(_LazyNormBase, _InstanceNorm):
    """InstanceNorm1d that takes num_features from its first input."""

    cls_to_become = InstanceNorm1d
    ranks = (2, 3)


class LazyInstanceNorm2d(_LazyNormBase, _InstanceNorm):
    """InstanceNorm2d that takes num_features from its first input."""

    cls_to_become = InstanceNorm2d
    ranks = (3, 4)


class LazyInstanceNorm3d(_LazyNormBase, _InstanceNorm):
    """InstanceNorm3d that takes num_features from its first input."""

    cls_to_become = InstanceNorm3d
    ranks = (4, 5)
