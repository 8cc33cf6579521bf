"""The CPU: NumPy's arrays, machine code made by LLVM, and the threads that run it.

Read next: devices/cpu/programs/__init__.py.
"""
