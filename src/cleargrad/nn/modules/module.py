"""torch.nn.modules.module: Module under PyTorch's path, and the hooks on all modules.

Read next: nn/module.py.
"""

from cleargrad.nn.hooks import (
    register_module_backward_hook,
    register_module_buffer_registration_hook,
    register_module_forward_hook,
    register_module_forward_pre_hook,
    register_module_full_backward_hook,
    register_module_full_backward_pre_hook,
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
)
from cleargrad.nn.module import Module
from cleargrad.nn.module import indented as _addindent
from cleargrad.nn.state import EXTRA as _EXTRA_STATE_KEY_SUFFIX
from cleargrad.nn.state import _IncompatibleKeys

__all__ = [
    "_EXTRA_STATE_KEY_SUFFIX",
    "Module",
    "_IncompatibleKeys",
    "_addindent",
    "register_module_backward_hook",
    "register_module_buffer_registration_hook",
    "register_module_forward_hook",
    "register_module_forward_pre_hook",
    "register_module_full_backward_hook",
    "register_module_full_backward_pre_hook",
    "register_module_module_registration_hook",
    "register_module_parameter_registration_hook",
]
