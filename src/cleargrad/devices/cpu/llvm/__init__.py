"""LLVM: its assembly language, scalar expressions written in it, and machine code made of it.

Read next: devices/cpu/llvm/text.py.
"""
