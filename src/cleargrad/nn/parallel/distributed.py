"""DistributedDataParallel for a group of one process: gradients are already the mean over all.

Read next: distributed/__init__.py.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from cleargrad.distributed.process_group import group_of
from cleargrad.errors import error
from cleargrad.nn.module import Module

NAME = "DistributedDataParallel"


class DistributedDataParallel(Module):
    """A module under the name `module`, which state dicts show as a prefix."""

    def __init__(
        self,
        module: Module,
        device_ids: Any = None,
        output_device: Any = None,
        dim: int = 0,
        broadcast_buffers: bool | None = None,
        init_sync: bool = True,
        process_group: Any = None,
        bucket_cap_mb: Any = None,
        find_unused_parameters: bool = False,
        check_reduction: bool = False,
        gradient_as_bucket_view: bool = False,
        static_graph: bool = False,
        **options: Any,
    ) -> None:
        super().__init__()
        self.process_group = group_of(NAME, process_group)
        if not any(parameter.requires_grad for parameter in module.parameters()):
            rule = "it is not needed when a module doesn't have any parameter that requires a gradient"
            raise error(RuntimeError, NAME, rule)
        if (device_ids is not None and len(device_ids)) or output_device is not None:
            rule = "device_ids and output_device arguments only work with modules on a GPU"
            raise error(ValueError, NAME, rule, device_ids=device_ids, fix="leave both out on a CPU")
        self.dim = dim
        self.module = module
        self.device_ids = None
        self.output_device = None
        self.broadcast_buffers = True if broadcast_buffers is None else broadcast_buffers
        self.find_unused_parameters = find_unused_parameters
        self.gradient_as_bucket_view = gradient_as_bucket_view
        self.static_graph = static_graph
        self.require_backward_grad_sync = True

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        return self.module(*inputs, **kwargs)

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Inside, gradients are not exchanged."""
        before = self.require_backward_grad_sync
        self.require_backward_grad_sync = False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    @contextlib.contextmanager
    def join(
        self,
        divide_by_initial_world_size: bool = True,
        enable: bool = True,
        throw_on_early_termination: bool = False,
    ) -> Iterator[None]:
        """Lets processes have different numbers of batches; there is one process."""
        yield

    def register_comm_hook(self, state: object, hook: Callable) -> None:
        """A function that would exchange gradients; with one process it is never called."""
