"""Array-level kernels for the CPU, written on NumPy: plain arrays in, plain arrays out, no autograd.

Read next: devices/cpu/arrays/precision.py.
"""
