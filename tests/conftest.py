"""Shared by all tests: PyTorch, if installed, keeps to one thread, so that parallel workers do not fight.

Graphs that are compiled are verified after every pass, also in processes that tests start (compile/verify.py).
"""

import importlib.util
import os

os.environ["CLEARGRAD_VERIFY"] = "1"

if importlib.util.find_spec("torch") is not None:
    import torch

    torch.set_num_threads(1)
