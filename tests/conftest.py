"""Shared by all tests: the import of the oracle is slow, so it happens once, before anything is timed."""

import warnings

import torch

torch.set_num_threads(1)
warnings.filterwarnings("ignore", message=".*non-writable.*")
