"""torch.quantization: the old name of torch.ao.quantization."""

from cleargrad.ao import quantization as _quantization

globals().update({name: value for name, value in vars(_quantization).items() if not name.startswith("_")})
