"""Schedules: what a graph computes as loops over memory, in which order, and where it lies. They know no device.

Read next: schedule/formulas.py.
"""
