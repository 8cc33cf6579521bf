"""torch._inductor.config: options of PyTorch's kernel writer. A program may set any; they change nothing.

Read next: torch_names/jit/__init__.py.
"""

fx_graph_cache = True
coordinate_descent_tuning = False
epilogue_fusion = True
max_autotune = False
debug = False


class triton:
    """Options of kernels for GPUs."""

    unique_kernel_names = True
    cudagraphs = False
