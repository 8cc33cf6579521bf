"""From calls to events: what each call of an engine means for gradients, one file per theme.

Read next: observers/gradients.py.
"""
