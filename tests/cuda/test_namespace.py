"""torch.cuda on an emulated GPU: memory, streams, events, recordings, and what is known of the device."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading

import numpy as np
import pytest

import cleargrad as cg
from cleargrad import cuda
from cleargrad.core import device as devices
from tests.bits import same_bits

pytestmark = pytest.mark.eager


def test_a_gpu_is_there(gpu) -> None:
    assert cuda.is_available() and cuda.device_count() == 1 and cuda.current_device() == 0
    assert cuda.is_initialized() and cuda.get_device_name() == "Emulated"
    assert cuda.get_device_capability() == (9, 0) and cuda.get_arch_list() == ["sm_90"]
    found = cuda.get_device_properties(0)
    assert (found.major, found.minor, found.multi_processor_count) == (9, 0, 1)
    assert found.total_memory == gpu.total and "Emulated" in repr(found)
    assert cuda.is_bf16_supported() and cuda.is_tf32_supported()
    cuda.set_device(0)
    cuda.set_device("cuda:0")
    cuda.synchronize()
    with cuda.device(0), cuda.device(-1), cuda.device_of(cg.ones(1, device="cuda")):
        assert cg.ones(1, device="cuda").device == cg.device("cuda", 0)
    with pytest.raises(RuntimeError, match="invalid device ordinal"):
        cg.ones(1, device="cuda:3")
    with pytest.raises(ValueError, match="Expected a cuda device"):
        cuda.set_device("cpu")


def test_moving(gpu) -> None:
    x = cg.arange(6.0).view(2, 3)
    y = x.cuda()
    assert y.is_cuda and y.get_device() == 0 and x.get_device() == -1
    assert y.device == cg.device("cuda:0") and not y.is_cpu
    for there in (x.to("cuda", non_blocking=True), x.cuda(0), x.to(0), x.to(y), x.t().cuda().t()):
        same_bits(there.cpu(), x)
    assert y.to("cuda") is y and y.cuda() is y
    model = cg.nn.BatchNorm1d(2).cuda()
    assert all(value.is_cuda for value in model.state_dict().values())
    assert all(value.is_cpu for value in model.cpu().state_dict().values())
    z = cg.zeros(2, 3, device="cuda")
    z.copy_(x, non_blocking=True)
    same_bits(z.cpu(), x)
    assert isinstance(y, cuda.FloatTensor) and not isinstance(x, cuda.FloatTensor)
    assert cuda.FloatTensor([1.0]).is_cuda


# Memory ----------------------------------------------------------------------------------------------------


def test_memory_is_counted(gpu) -> None:
    assert cuda.memory_allocated() == 0 and cuda.memory_reserved() == 512  # of the runtime itself
    x = cg.empty(1000, device="cuda")
    assert cuda.memory_allocated() == 4096
    y = cg.empty(1, device="cuda")
    assert cuda.memory_allocated() == 4096 + 512 == cuda.max_memory_allocated()
    view = x[10:]
    del x
    assert cuda.memory_allocated() == 4096 + 512
    del view, y
    assert cuda.memory_allocated() == 0 and cuda.max_memory_allocated() == 4096 + 512
    assert cuda.memory_reserved() == 4096 + 1024
    stats = cuda.memory_stats()
    assert stats["allocation.all.allocated"] == stats["allocation.all.freed"] == 2
    assert stats["allocated_bytes.all.peak"] == 4096 + 512 and stats["num_ooms"] == 0
    assert cuda.memory_stats_as_nested_dict()["reserved_bytes"]["all"]["current"] == 4096 + 1024
    cuda.empty_cache()
    assert cuda.memory_reserved() == 512 and cuda.max_memory_reserved() == 4096 + 1024
    cuda.reset_peak_memory_stats()
    assert cuda.max_memory_allocated() == 0 and cuda.max_memory_reserved() == 512
    free, total = cuda.mem_get_info()
    assert total - free == 512
    assert "tensors" in cuda.memory_summary() and "memory of cuda:0" in cuda.memory_summary()


def test_memory_is_counted_by_several_threads(gpu) -> None:
    def work() -> None:
        for n in range(300):
            gpu.allocate(n)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert cuda.memory_allocated() == 0 and gpu.counts.pieces == 1200


def test_out_of_memory_says_what_to_do(gpu, small) -> None:
    layer = cg.nn.Linear(64, 64).cuda()
    x = cg.ones(4096, 64, device="cuda")
    held = cuda.memory_allocated()
    cuda.empty_cache()
    small(600_000)
    with pytest.raises(cg.OutOfMemoryError) as caught:
        layer(x)
    text = str(caught.value)
    assert isinstance(caught.value, RuntimeError) and caught.value.__class__ is cuda.OutOfMemoryError
    assert "linear: CUDA out of memory. Tried to allocate 1 MiB." in text
    assert "586 KiB of" in text and "held" in text and "torch.utils.checkpoint" in text
    assert "a micro-batch of about 1024 would fit instead of 4096" in text
    assert "accumulate gradients over 4 micro-batches" in text and "test_namespace.py" in text
    assert cuda.memory_allocated() <= held + 512 * 8 and cuda.memory_stats()["num_ooms"] == 1
    parts = [layer(part).sum() for part in x.chunk(8)]  # and with less it goes on
    assert len(parts) == 8
    with pytest.raises(cg.OutOfMemoryError, match=r"CUDA out of memory[\s\S]*fix"):
        cg.empty(10**6, device="cuda")
    with pytest.raises(cg.OutOfMemoryError, match="out of memory"):
        cg.ones(10**6).cuda()


def test_tensors_that_only_hold_each_other_make_room(gpu, small) -> None:
    class Holder:
        pass

    gc.disable()
    try:
        holder = Holder()
        holder.self, holder.x = holder, cg.empty(100_000, device="cuda")
        del holder
        small(100_000)
        assert cg.empty(100_000, device="cuda").is_cuda
        assert cuda.memory_stats()["num_alloc_retries"] <= 1
    finally:
        gc.enable()


# Streams and recordings ------------------------------------------------------------------------------------


def test_events_measure(gpu) -> None:
    start, end = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
    with pytest.raises(ValueError, match="must be recorded"):
        start.elapsed_time(end)
    assert start.query()
    start.record()
    cg.ones(10, device="cuda").exp()
    end.record()
    end.synchronize()
    assert start.elapsed_time(end) > 0 and end.query()
    with pytest.raises(ValueError, match="enable_timing=True"):
        cuda.Event().elapsed_time(end)


def test_streams_wait_for_each_other(gpu) -> None:
    side, main = cuda.Stream(), cuda.current_stream()
    assert main == cuda.default_stream() and main != side and main.cuda_stream == 0
    side.wait_stream(main)
    with cuda.stream(side):
        assert cuda.current_stream() == side
        x = cg.ones(3, device="cuda")
    assert cuda.current_stream() == main
    main.wait_stream(side)
    x.record_stream(main)
    assert gpu.calls == ["1 waits for 0", "0 waits for 1"]
    side.synchronize()
    assert side.query() and x.tolist() == [1, 1, 1]
    with cuda.stream(None):
        assert cuda.current_stream() == main
    del x
    assert len(gpu.queues.resting) == 1
    gpu.queues.look()
    assert not gpu.queues.resting


def test_a_program_has_one_working_memory(gpu) -> None:
    """Its runs on two streams follow each other."""
    x, side = cg.randn(5, 7).cuda(), cuda.Stream()
    with cuda.stream(side):
        x.softmax(1)
    x.softmax(1)
    assert f"0 waits for {side.cuda_stream}" in gpu.calls


def test_a_recording_is_replayed(gpu) -> None:
    cg.manual_seed(0)
    layer = cg.nn.Linear(4, 3).cuda()
    x, y = cg.randn(5, 4).cuda(), cg.randn(5, 3).cuda()
    cg.nn.functional.mse_loss(layer(x), y).backward()
    layer.zero_grad()
    graph = cuda.CUDAGraph()
    with pytest.raises(RuntimeError, match="not captured"):
        graph.replay()
    with cuda.graph(graph):
        assert cuda.is_current_stream_capturing()
        loss = cg.nn.functional.mse_loss(layer(x), y) * 0.5
        loss.backward()
    assert not cuda.is_current_stream_capturing() and cuda.current_stream() == cuda.default_stream()
    for k in range(3):
        values = cg.full((5, 4), k + 1.0)
        x.copy_(values)
        layer.weight.grad.zero_()
        layer.bias.grad.zero_()
        others = [cg.full((5, 3), 9.0, device="cuda") for _ in range(20)]  # they get none of its memory
        graph.replay()
        here = cg.nn.Linear(4, 3)
        here.load_state_dict({name: value.cpu() for name, value in layer.state_dict().items()})
        expected = cg.nn.functional.mse_loss(here(values), y.cpu()) * 0.5
        expected.backward()
        assert cg.allclose(loss.cpu(), expected)
        assert cg.allclose(layer.weight.grad.cpu(), here.weight.grad, atol=1e-6)
        assert all((other == 9).all().item() for other in others)
    with pytest.raises(RuntimeError), cuda.graph(cuda.CUDAGraph()):
        loss.item()
    assert cuda.current_stream() == cuda.default_stream()


# Pinned memory ---------------------------------------------------------------------------------------------


def test_pinned_memory(gpu) -> None:
    x = cg.arange(12).view(3, 4)
    pinned = x.t().pin_memory()
    assert pinned.is_pinned() and not x.is_pinned() and pinned.pin_memory() is pinned
    assert pinned[1:].is_pinned() and pinned.stride() == (1, 4)
    gpu.calls.clear()
    there = pinned.to("cuda", non_blocking=True)
    assert gpu.calls == [] and not there.is_pinned()
    same_bits(there.cpu(), x.t())
    pinned.cuda()
    assert gpu.calls == ["synchronize 0"]
    del pinned
    assert len(gpu.queues.resting) == 1
    with pytest.raises(RuntimeError, match="cannot pin"):
        there.pin_memory()


def test_batches_are_pinned(gpu) -> None:
    data = cg.utils.data.TensorDataset(cg.arange(6.0), cg.arange(6))
    loader = cg.utils.data.DataLoader(data, batch_size=2, pin_memory=True)
    for x, y in loader:
        assert x.is_pinned() and y.is_pinned() and x.cuda(non_blocking=True).tolist() == y.tolist()


# Without a GPU ---------------------------------------------------------------------------------------------


def test_what_is_missing_is_said(monkeypatch) -> None:
    monkeypatch.delitem(devices.drivers, "cuda", raising=False)
    monkeypatch.setitem(devices.makers, "cuda", lambda: None)
    monkeypatch.setitem(devices.absent, "cuda", lambda: "not CuPy: pip install 'cleargrad[cuda]'")
    for call in (lambda: cg.ones(1).cuda(), cuda.current_device):
        monkeypatch.setitem(devices.makers, "cuda", lambda: None)
        with pytest.raises(AssertionError, match=r"CUDA enabled[\s\S]*pip install 'cleargrad\[cuda\]'"):
            call()


def test_nothing_of_cuda_is_imported_without_need() -> None:
    code = (
        "import sys, cleargrad, cleargrad.cuda; cleargrad.cuda.is_available(); cleargrad.cuda.manual_seed(1);"
        "print(sorted({'cupy', 'cupy_backends', 'cleargrad.devices.cuda.driver'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout == "[]\n", done.stderr


def test_checkpoints_are_read_without_zlib_ng(tmp_path) -> None:
    code = (
        "import sys; sys.modules['zlib_ng'] = None\n"
        "import cleargrad as cg\n"
        f"cg.save({{'x': cg.arange(5)}}, {str(tmp_path / 'x.pt')!r})\n"
        f"print(cg.load({str(tmp_path / 'x.pt')!r})['x'].tolist())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout == "[0, 1, 2, 3, 4]\n", done.stderr
    assert cg.load(tmp_path / "x.pt")["x"].numpy().dtype == np.int64
