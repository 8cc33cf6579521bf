"""torch.backends.openmp: threads by OpenMP, which cleargrad does not use; see threads.py.

Read next: torch_names/backends/mha.py.
"""


def is_available() -> bool:
    return False
