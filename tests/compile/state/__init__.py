"""Small programs whose Python state changes between the calls of a compiled function, by class of attack.

Each is written once for any library with PyTorch's API: it gets the library and `wrap`, which compiles a function
or leaves it alone, and returns all that can be seen of the calls. Both ways must give the same, at every call.
"""

from tests.compile.state import (  # noqa: F401  each registers its programs
    attributes,
    containers,
    environment,
    iterators,
    made_from_data,
    numbers,
    proof_modules,
    proof_python,
    proof_surroundings,
    proof_values,
    proof_weak_points,
    results,
    side_effects,
    training,
)
from tests.compile.state.common import PROGRAMS

__all__ = ["PROGRAMS"]
