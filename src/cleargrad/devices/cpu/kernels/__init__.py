"""Kernels written by hand as machine code: sizes and strides go in, a few kernels with their arguments come out.

Read next: devices/cpu/kernels/packing.py.
"""
