"""Scalar expressions: what an elementwise op or a reduction computes, and their reading by NumPy.

Read next: expr/expr.py.
"""
