"""torch.nn.utils.memory_format: the weights of convolutions in another order in memory.

Read next: ops/conversion.py.
"""

from __future__ import annotations

from typing import Any

from cleargrad.nn.module import Module
from cleargrad.nn.modules.conv import Conv2d, Conv3d, ConvTranspose2d, ConvTranspose3d


def convert_conv2d_weight_memory_format(module: Module, memory_format: Any) -> Module:
    """Every two-dimensional convolution's weight in a memory format."""
    return converted(module, (Conv2d, ConvTranspose2d), memory_format)


def convert_conv3d_weight_memory_format(module: Module, memory_format: Any) -> Module:
    """Every three-dimensional convolution's weight in a memory format."""
    return converted(module, (Conv3d, ConvTranspose3d), memory_format)


def converted(module: Module, kinds: tuple, memory_format: Any) -> Module:
    for part in module.modules():
        if isinstance(part, kinds):
            part.weight.data = part.weight.detach().clone(memory_format=memory_format)
    return module
