"""Devices: kernels on arrays. So far the CPU, on NumPy."""
