"""From a schedule to machine code: kernels for nests of loops, and programs that run them."""
