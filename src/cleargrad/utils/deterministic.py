"""torch.utils.deterministic: whether new memory is filled so that programs which read it can be repeated.

Read next: torch_names/settings.py.
"""

fill_uninitialized_memory = True
