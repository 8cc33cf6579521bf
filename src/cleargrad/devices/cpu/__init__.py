"""The CPU: NumPy's arrays, machine code made by LLVM, and the threads that run it."""
