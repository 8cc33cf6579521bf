"""torch._dynamo.config: options of PyTorch's compiler. A program may set any; they change nothing.

Read next: torch_names/_dynamo/utils.py.
"""

suppress_errors = False
verbose = False
cache_size_limit = recompile_limit = 8
accumulated_cache_size_limit = 256
dynamic_shapes = True
assume_static_by_default = True
automatic_dynamic_shapes = True
capture_scalar_outputs = False
optimize_ddp = True
