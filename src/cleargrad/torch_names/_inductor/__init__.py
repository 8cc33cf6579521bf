"""torch._inductor: the part of PyTorch's compiler that writes kernels; here only its options."""

from cleargrad._inductor import config as config
