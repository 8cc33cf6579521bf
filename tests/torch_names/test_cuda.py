"""torch.cuda, torch.accelerator, torch.mps and torch.xpu without any of them: PyTorch's answers and exceptions."""

from __future__ import annotations

import builtins
from typing import Any

import pytest
import torch

import cleargrad as cg
from tests.oracle import failure, same

CALLS = """
cuda.is_available() | cuda.device_count() | cuda.is_initialized() | cuda.is_bf16_supported()
cuda.is_tf32_supported() | cuda.get_arch_list() | cuda.get_gencode_flags() | cuda.current_device()
cuda.get_device_name() | cuda.get_device_name(0) | cuda.get_device_capability() | cuda.get_device_properties(0)
cuda.manual_seed(1) | cuda.manual_seed_all(1) | cuda.seed() | cuda.seed_all() | cuda.initial_seed()
cuda.empty_cache() | cuda.synchronize() | cuda.ipc_collect() | cuda.init() | cuda.cudart()
cuda.memory_allocated() | cuda.memory_allocated(0) | cuda.max_memory_allocated() | cuda.memory_reserved()
cuda.max_memory_reserved() | cuda.memory_stats() | cuda.mem_get_info() | cuda.memory_summary()
cuda.reset_peak_memory_stats() | cuda.reset_max_memory_allocated() | cuda.memory_snapshot()
cuda.set_device(0) | cuda.set_device(-1) | cuda.set_device("cpu") | cuda.set_device("cuda:0")
cuda.device(0).__enter__() | cuda.device_of(T.ones(1)).__enter__() | cuda.stream(None).__enter__()
cuda.Stream() | cuda.Event() | cuda.Event(enable_timing=True) | cuda.current_stream() | cuda.CUDAGraph()
cuda.get_rng_state() | cuda.get_rng_state_all() | cuda.set_rng_state_all([]) | cuda.utilization()
cuda.nvtx.range_push("a") | cuda.nvtx.range_pop() | cuda.nvtx.range("a").__enter__() | cuda.profiler.start()
cuda.FloatTensor(2) | isinstance(T.ones(1), cuda.FloatTensor) | cuda.default_generators
accelerator.is_available() | accelerator.current_accelerator() | accelerator.device_count()
accelerator.current_device_index() | accelerator.synchronize() | accelerator.memory_allocated()
mps.is_available() | mps.manual_seed(1) | mps.empty_cache() | mps.current_allocated_memory()
xpu.is_available() | xpu.device_count() | xpu.manual_seed_all(1) | xpu.memory_allocated() | xpu.current_device()
cpu.is_available() | cpu.device_count() | cpu.current_device() | cpu.synchronize() | cpu.is_initialized()
T.ones(1).cuda() | T.ones(1).to("cuda") | T.ones(1).to("xpu") | T.ones(1, device="cuda") | T.Generator("cuda")
T.nn.Linear(1, 1).cuda() | T.nn.Linear(1, 1).to("cuda") | repr(T.nn.ReLU().cuda()) | repr(T.nn.ReLU().to("cuda"))
T.ones(1).pin_memory() | T.ones(1).is_pinned() | T.ones(1).is_cuda | T.ones(1).is_cpu | T.ones(1).is_xpu
""".replace("\n", " | ").split(" | ")


@pytest.mark.parametrize("call", [call for call in CALLS if call])
def test_as_pytorch_without_a_gpu(call: str) -> None:
    def run(T: Any) -> Any:
        names = {name: getattr(T, name) for name in ("cuda", "accelerator", "mps", "xpu", "cpu")}
        return failure(lambda: eval(call, {**vars(builtins), "T": T, **names}))

    same(run)


def test_the_error_says_what_to_ask() -> None:
    with pytest.raises(AssertionError, match=r"not compiled with CUDA enabled[\s\S]*is_available"):
        cg.ones(2).cuda()
    with pytest.raises(AssertionError, match=r"get_device_name: Torch not compiled with CUDA"):
        cg.cuda.get_device_name()


def test_names_of_errors() -> None:
    assert issubclass(cg.cuda.OutOfMemoryError, RuntimeError)
    assert cg.OutOfMemoryError is cg.cuda.OutOfMemoryError
    assert issubclass(torch.OutOfMemoryError, RuntimeError)


def test_events_of_the_cpu_measure() -> None:
    start, end = cg.cpu.Event(enable_timing=True), cg.cpu.Event(enable_timing=True)
    start.record()
    sum(range(1000))
    end.record()
    assert start.elapsed_time(end) > 0
