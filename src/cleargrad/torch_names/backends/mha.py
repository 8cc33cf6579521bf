"""torch.backends.mha: the short cut of attention layers in evaluation, which cleargrad does not need.

Read next: torch_names/backends/opt_einsum.py.
"""

_enabled = True


def get_fastpath_enabled() -> bool:
    return _enabled


def set_fastpath_enabled(value: bool) -> None:
    global _enabled
    _enabled = value
