"""Graphs of recorded calls, the passes over them, and their verifier. No device is known here.

Read next: graph/passes.py.
"""
