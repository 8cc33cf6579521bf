"""torch.utils._foreach_utils: lists of tensors sorted by device and dtype, as optimizers of other libraries do it.

Read next: foreach.py, the functions that work on such lists.
"""

from __future__ import annotations

from typing import Any

from cleargrad.core.device import device
from cleargrad.core.tensor import Tensor
from cleargrad.errors import error

Lists = list[list[Tensor | None]]


def _get_foreach_kernels_supported_devices() -> list[str]:
    """Kinds of devices on which one kernel takes a whole list."""
    return ["cuda", "xpu", "mtia", "privateuseone"]


def _get_fused_kernels_supported_devices() -> list[str]:
    """Kinds of devices on which one kernel takes a whole optimizer step."""
    return ["mps", "cuda", "xpu", "hpu", "cpu", "mtia", "privateuseone"]


def _group_tensors_by_device_and_dtype(
    tensorlistlist: Lists, with_indices: bool = False
) -> dict[tuple[device, Any], tuple[Lists, list[int]]]:
    """The lists cut by the device and dtype of the first list's tensors, and the positions they had."""
    groups: dict[tuple[device, Any], tuple[Lists, list[int]]] = {}
    for position, first in enumerate(tensorlistlist[0]):
        if first is None:
            rule = "the tensors of the first list decide the groups and must all be there"
            raise error(RuntimeError, "_group_tensors_by_device_and_dtype", rule, missing=position)
        key = (first.device, first.dtype)
        lists, positions = groups.setdefault(key, ([[] for _ in tensorlistlist], []))
        for part, whole in zip(lists, tensorlistlist, strict=True):
            if whole:
                part.append(whole[position])
        if with_indices:
            positions.append(position)
    return groups


def _device_has_foreach_support(device: device) -> bool:
    return device.type in (*_get_foreach_kernels_supported_devices(), "cpu")


def _has_foreach_support(tensors: list[Any], device: device) -> bool:
    """Whether a list can go to the functions of foreach.py."""
    return _device_has_foreach_support(device) and all(t is None or isinstance(t, Tensor) for t in tensors)
