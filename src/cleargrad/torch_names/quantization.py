"""torch.quantization: the old name of torch.ao.quantization.

Read next: torch_names/ao/quantization/__init__.py.
"""

from cleargrad.ao import quantization as _quantization

globals().update({name: value for name, value in vars(_quantization).items() if not name.startswith("_")})
