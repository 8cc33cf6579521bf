"""torch.backends.mps: Apple's GPUs, which are not here. Read next: backends/mkl.py."""


def is_available() -> bool:
    return False


def is_built() -> bool:
    return False
