"""torch.ao: quantised models, which cleargrad does not have. Read next: ao/quantization/__init__.py."""

from cleargrad.ao import quantization as quantization
