"""Names that are here because PyTorch has them: switches that are only remembered, old names, and stand-ins.

Programs mention `torch.backends`, `torch.jit` or `torch.fx`, and libraries import them without ever using them.
What such a name needs lies in this folder, so that the others hold nothing but what computes. A module is called
as it is in PyTorch: this folder is the second entry of cleargrad's `__path__` (one line in cleargrad/__init__.py),
so Python's own import finds `cleargrad.fx` in torch_names/fx.py as if it lay beside the others, once and under
that name alone. `from cleargrad import fx`, pickles, `python -m` and `import torch.fx` (compat.py) follow from
that. Nothing below builds on this room: only `__init__.py` and compat.py import from it. Names inside of other
packages, such as torch.nn.common_types, stay with them. Read next: torch_names/rare_methods.py.
"""

# No module is found as `cleargrad.torch_names.fx`: it would be a second one.
__path__: list[str] = []
