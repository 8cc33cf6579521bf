"""What a tensor is made of: dtype, device, shape, memory with a version, and the random generator.

Read next: core/dtype.py.
"""
