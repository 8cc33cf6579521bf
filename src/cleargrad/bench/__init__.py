"""What training steps cost, on cleargrad and on whatever else is installed, taking turns.

`cleargrad bench` and benchmarks/train_step.py are the ways in. Read next: bench/weights.py.
"""
