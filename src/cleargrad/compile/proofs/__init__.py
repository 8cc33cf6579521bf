"""Proofs that Python would decide the same again, so that a call of a compiled function can do without it.

Read next: compile/proofs/rewriting.py.
"""
