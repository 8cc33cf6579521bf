"""Addresses of arrays, and memory that begins with a cache line."""

from __future__ import annotations

import numpy as np
import pytest

from cleargrad.core.address import LINE, address, lined_up


@pytest.mark.parametrize(
    "array",
    [
        np.zeros(5),
        np.zeros((3, 4), np.int8)[1:, ::-1],
        np.zeros((0, 3)),
        np.array(2.0),
        np.zeros(3).view(np.recarray),
    ],
)
def test_an_address_is_what_numpy_says(array: np.ndarray) -> None:
    assert address(array) == array.__array_interface__["data"][0] == array.ctypes.data


@pytest.mark.parametrize("size", [1, 63, 64, 1000])
def test_memory_begins_with_a_line(size: int) -> None:
    memory = lined_up(size)
    assert memory.nbytes == size and address(memory) % LINE == 0
