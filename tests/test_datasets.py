"""The data that ships is what its authors published."""

from __future__ import annotations

from pathlib import Path

import cleargrad
from cleargrad.datasets import digits


def test_digits() -> None:
    images, labels = digits()
    assert images.shape == (1797, 1, 8, 8) and images.dtype == cleargrad.float32
    assert labels.shape == (1797,) and labels.dtype == cleargrad.int64
    assert images.min() == 0 and images.max() == 1
    # Counts by class as the data set's own description gives them.
    assert cleargrad.bincount(labels).tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]
    assert (images * 16).sum().item() == 561718
    assert (images[0, 0, 0] * 16).tolist() == [0, 0, 5, 13, 9, 1, 0, 0] and labels[:5].tolist() == [
        0,
        1,
        2,
        3,
        4,
    ]


def test_each_call_gives_tensors_of_its_own() -> None:
    digits()[0].zero_()
    assert cleargrad.datasets.digits()[0].max() == 1


def test_authors_and_licence_are_named() -> None:
    text = (Path(cleargrad.datasets.__file__).parent / "digits.txt").read_text()
    assert "Alpaydin" in text and "Kaynak" in text and "CC BY 4.0" in text
