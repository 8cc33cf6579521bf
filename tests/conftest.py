"""Shared by all tests: PyTorch, if installed, keeps to one thread, so that parallel workers do not fight."""

import importlib.util

if importlib.util.find_spec("torch") is not None:
    import torch

    torch.set_num_threads(1)
