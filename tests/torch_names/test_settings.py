"""Switches of the process, the number of threads, torch.backends: what is written is read back."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import torch

import cleargrad as cg
from tests.oracle import failure, same


def test_determinism() -> None:
    def run(T: Any) -> Any:
        said: list = [T.are_deterministic_algorithms_enabled()]
        for call in (
            lambda: T.use_deterministic_algorithms(True),
            lambda: T.use_deterministic_algorithms(True, warn_only=True),
            lambda: T.set_deterministic_debug_mode("error"),
            lambda: T.set_deterministic_debug_mode("no"),
            lambda: T.set_deterministic_debug_mode(7),
            lambda: T.set_deterministic_debug_mode(1.5),
            lambda: T.use_deterministic_algorithms("yes"),
            lambda: T.use_deterministic_algorithms(False),
        ):
            said.append(failure(call))
            said.append((T.are_deterministic_algorithms_enabled(), T.get_deterministic_debug_mode()))
            said.append(T.is_deterministic_algorithms_warn_only_enabled())
        return said

    same(run)


def test_matmul_precision() -> None:
    def run(T: Any) -> Any:
        said = [T.get_float32_matmul_precision()]
        for word in ("high", "medium", "highest"):
            T.set_float32_matmul_precision(word)
            said += [T.get_float32_matmul_precision(), T.backends.cuda.matmul.allow_tf32]
        return said

    same(run)
    with pytest.warns(UserWarning, match="is not one of"):
        cg.set_float32_matmul_precision("low")
    cg.backends.cuda.matmul.allow_tf32 = True
    assert cg.get_float32_matmul_precision() == "high"
    cg.backends.cuda.matmul.allow_tf32 = False
    with pytest.raises(AttributeError):
        cg.backends.cuda.matmul.allow_everything = True


def test_threads() -> None:
    before = cg.get_num_threads()
    try:
        cg.set_num_threads(1)
        assert cg.get_num_threads() == 1
        from threadpoolctl import threadpool_info

        assert all(found["num_threads"] == 1 for found in threadpool_info() if found["user_api"] == "blas")
    finally:
        cg.set_num_threads(before)
    assert cg.get_num_threads() == before
    same(lambda T: [failure(lambda n=n: T.set_num_threads(n)) for n in (0, -1, 1.5, "2", True)])
    assert cg.get_num_interop_threads() >= 1


class Where(cg.utils.data.Dataset):
    """Every sample is the number of threads in the process that reads it."""

    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: int) -> int:
        return cg.get_num_threads()


def test_a_worker_of_a_loader_has_one_thread() -> None:
    assert [batch.tolist() for batch in cg.utils.data.DataLoader(Where(), num_workers=1)] == [[1], [1]]


def test_cudnn_switches() -> None:
    def run(T: Any) -> Any:
        m = T.backends.cudnn
        names = ("enabled", "benchmark", "deterministic", "allow_tf32")
        said = [
            [getattr(m, name) for name in names],
            m.is_available(),
            m.version(),
            m.is_acceptable(T.ones(1)),
        ]
        m.benchmark = True
        with m.flags(enabled=False, deterministic=True):
            said.append([getattr(m, name) for name in names])
        said.append([getattr(m, name) for name in names])
        m.benchmark = False
        return said

    # PyTorch's own test tools, once some other test has imported them, forbid what programs do.
    with torch.backends.flags_frozen.__globals__["__allow_nonbracketed_mutation"]():
        same(run)


def test_other_backends() -> None:
    def run(T: Any) -> Any:
        b = T.backends
        b.cuda.enable_flash_sdp(False)
        said = [b.cuda.flash_sdp_enabled(), b.cuda.math_sdp_enabled(), b.cuda.is_built()]
        b.cuda.enable_flash_sdp(True)
        said += [
            b.mps.is_available(),
            b.mps.is_built(),
            b.mha.get_fastpath_enabled(),
            b.opt_einsum.is_available(),
        ]
        with T.nn.attention.sdpa_kernel(T.nn.attention.SDPBackend.MATH):
            said.append(T.ones(1) + 1)
        return said

    import torch.nn.attention

    same(run)
    assert torch.backends.cpu.get_cpu_capability() == cg.backends.cpu.get_cpu_capability()


def test_typename_and_storage() -> None:
    def run(T: Any) -> Any:
        things = [T.ones(1), T.ones(1, dtype=T.int64), 1, "s", int, T.nn.Linear(1, 1), T.nn.Linear]
        return (
            [T.typename(thing) for thing in things],
            T.is_storage(T.ones(1).untyped_storage()),
            T.is_storage(1),
        )

    same(run)


def test_default_tensor_type() -> None:
    def run(T: Any) -> Any:
        said = []
        for kind in (T.DoubleTensor, "torch.FloatTensor", "torch.LongTensor", "torch.cuda.FloatTensor", 3):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                said.append(failure(lambda kind=kind: T.set_default_tensor_type(kind)))
            said.append(str(T.get_default_dtype()))
        return said

    same(run)


def test_device_module() -> None:
    assert cg.get_device_module() is cg.cpu
    assert cg.get_device_module("cuda:0") is cg.cuda


def test_text_about_the_build() -> None:
    assert np.__version__ in cg.__config__.show()
    assert "get_num_threads" in cg.__config__.parallel_info()
    assert cg.version.cuda is None
