"""The memory behind tensors: files mapped into it, parts of it, and its size."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import cleargrad as cg
from tests.oracle import same


def test_a_file_as_storage(tmp_path: Path) -> None:
    path = tmp_path / "numbers"

    def run(T: Any) -> Any:
        path.write_bytes(bytes(range(16)))
        private = T.UntypedStorage.from_file(str(path), shared=False, nbytes=16)
        part = T.asarray(private[4:12], dtype=T.uint8)
        part[0] = 99
        numbers = part.view(dtype=T.int16).reshape(2, 2).clone()  # the file is written anew below
        shared = T.UntypedStorage.from_file(str(path), shared=True, nbytes=20)
        shared[1] = 77
        return numbers, private[4], private.nbytes(), len(shared), path.read_bytes()[:5], path.stat().st_size

    same(run)


def test_parts_share_memory() -> None:
    def run(T: Any) -> Any:
        x = T.arange(6, dtype=T.int32)
        storage = x.untyped_storage()
        storage[0:8][4] = 9
        return x, storage[0:8].nbytes(), storage.untyped().nbytes()

    same(run)


def test_size_counts_the_elements() -> None:
    x = cg.zeros(1000)
    assert 4000 < sys.getsizeof(x.untyped_storage()) < 4200 and 4000 < sys.getsizeof(x.storage()) < 4200


def test_a_detached_view_lies_in_the_whole_memory() -> None:
    def run(T: Any) -> Any:
        x = T.arange(12.0).reshape(3, 4).requires_grad_()
        whole = x * 2
        part = whole[1:].detach()
        below = part[1:]
        found = [part.storage_offset(), below.storage_offset(), part.untyped_storage().nbytes()]
        found.append(part.as_strided((2,), (4,), 0).tolist())
        part.data = T.ones(2, 2)
        return [*found, part.storage_offset(), part.untyped_storage().nbytes()]

    same(run)
