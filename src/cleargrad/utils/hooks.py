"""torch.utils.hooks: the handle that removes a hook. Read next: utils/dlpack.py."""

from cleargrad.autograd.node import RemovableHandle as RemovableHandle

__all__ = ["RemovableHandle"]
