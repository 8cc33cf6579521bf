"""torch.backends.openmp: threads by OpenMP, which cleargrad does not use; see threads.py."""


def is_available() -> bool:
    return False
