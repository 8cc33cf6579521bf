"""DataParallel: without GPUs it calls the module it holds. Read next: nn/parallel/distributed.py."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cleargrad.errors import error
from cleargrad.nn.module import Module


class DataParallel(Module):
    """A module under the name `module`, which state dicts show as a prefix."""

    def __init__(
        self, module: Module, device_ids: Sequence | None = None, output_device: Any = None, dim: int = 0
    ) -> None:
        super().__init__()
        self.dim = dim
        self.module = module
        self.device_ids: list = []

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        return self.module(*inputs, **kwargs)


def data_parallel(
    module: Module,
    inputs: Any,
    device_ids: Sequence | None = None,
    output_device: Any = None,
    dim: int = 0,
    module_kwargs: dict | None = None,
) -> Any:
    """The module over several GPUs, once; PyTorch refuses without one."""
    rule = "device type could not be determined: there is no GPU"
    raise error(RuntimeError, "data_parallel", rule, fix="call the module itself")
