"""From a schedule to machine code: kernels for nests of loops, and programs that run them.

Read next: devices/cpu/programs/target.py.
"""
