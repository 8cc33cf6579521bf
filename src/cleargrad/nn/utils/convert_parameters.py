"""Parameters as one vector, and a vector as parameters. Read next: nn/utils/rnn.py."""

from __future__ import annotations

from collections.abc import Iterable

from cleargrad.core.tensor import Tensor
from cleargrad.errors import error
from cleargrad.ops.joining import cat


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """All parameters, flattened and joined."""
    parameters = list(parameters)
    check_devices(parameters)
    return cat([parameter.view(-1) for parameter in parameters])


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Cuts a vector into the parameters' shapes; they look into its memory from then on."""
    if not isinstance(vec, Tensor):
        rule = f"expected torch.Tensor, but got: {type(vec).__name__}"
        raise error(TypeError, "vector_to_parameters", rule)
    parameters = list(parameters)
    check_devices(parameters)
    first = 0
    for parameter in parameters:
        size = parameter.numel()
        parameter.data = vec[first : first + size].view_as(parameter).data
        first += size


def check_devices(parameters: list[Tensor]) -> None:
    if len({parameter.device for parameter in parameters}) > 1:
        rule = "Found two parameters on different devices, this is currently not supported."
        raise error(TypeError, "parameters_to_vector", rule)
