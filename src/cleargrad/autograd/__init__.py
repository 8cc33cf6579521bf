"""Automatic differentiation: the graph, the backward walk, and PyTorch's torch.autograd."""
