"""torch.utils.cpp_extension: C++ and CUDA code compiled into a program, which cleargrad does not do.

Read next: missing.py.
"""

from cleargrad.missing import all_missing

CUDA_HOME = ROCM_HOME = None
globals().update(
    all_missing(
        "torch.utils.cpp_extension",
        "load load_inline CppExtension CUDAExtension BuildExtension include_paths library_paths",
        "compile C++ extensions, which are written for PyTorch's own tensors",
    )
)
