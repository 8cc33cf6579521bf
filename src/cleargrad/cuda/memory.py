"""torch.cuda.memory: how much of a GPU's memory is in use, and was at most.

"Allocated" is what tensors take; "reserved" is what CuPy's pool has taken from the GPU, for them and for later.
Read next: cuda/random.py.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from cleargrad.core.shortage import readable
from cleargrad.cuda.refusal import all_refusing, gpu, index_of, refusal, started
from cleargrad.errors import error


def empty_cache() -> None:
    """Gives memory back to the GPU that is kept for later tensors."""
    driver = started()
    if driver is not None:
        driver.runtime.empty_cache()


def memory_allocated(device: Any = None) -> int:
    """Bytes that tensors take."""
    driver = started()
    return 0 if driver is None else driver.runtime.counts.current


def max_memory_allocated(device: Any = None) -> int:
    """The most that tensors took, since the beginning or `reset_peak_memory_stats`."""
    driver = started()
    return 0 if driver is None else max(driver.runtime.counts.peak, driver.runtime.counts.current)


def memory_reserved(device: Any = None) -> int:
    """Bytes that were taken from the GPU, for tensors that are there and for later ones."""
    driver = started()
    return 0 if driver is None else driver.runtime.reserved


def max_memory_reserved(device: Any = None) -> int:
    """The most that was taken from the GPU."""
    driver = started()
    return 0 if driver is None else driver.runtime.counts.reserved(driver.runtime.reserved)


memory_cached, max_memory_cached = memory_reserved, max_memory_reserved  # their names before 1.4


def reset_peak_memory_stats(device: Any = None) -> None:
    """The peaks begin again at what is in use now."""
    gpu("reset_peak_memory_stats", AttributeError).runtime.counts.reset_peak()


def reset_accumulated_memory_stats(device: Any = None) -> None:
    """What was given out and came back altogether begins to be counted again."""
    gpu("reset_accumulated_memory_stats", AttributeError).runtime.counts.restart()


def reset_max_memory_allocated(device: Any = None) -> None:
    """The old name of reset_peak_memory_stats."""
    gpu("reset_max_memory_allocated", AttributeError).runtime.counts.reset_peak()


def reset_max_memory_cached(device: Any = None) -> None:
    """The old name of reset_peak_memory_stats."""
    gpu("reset_max_memory_cached", AttributeError).runtime.counts.reset_peak()


def memory_stats(device: Any = None) -> OrderedDict[str, Any]:
    """All counts by PyTorch's names; nothing before a GPU is used."""
    driver = started()
    if driver is None:
        return OrderedDict()
    counts, reserved = driver.runtime.counts, driver.runtime.reserved
    current = counts.current
    pieces = counts.pieces - counts.pieces_back
    return OrderedDict(
        {
            "active_bytes.all.current": current,
            "active_bytes.all.peak": counts.peak,
            "allocated_bytes.all.allocated": counts.given,
            "allocated_bytes.all.current": current,
            "allocated_bytes.all.freed": counts.given_back,
            "allocated_bytes.all.peak": counts.peak,
            "allocation.all.allocated": counts.pieces,
            "allocation.all.current": pieces,
            "allocation.all.freed": counts.pieces_back,
            "allocation.all.peak": counts.peak_pieces,
            "inactive_split_bytes.all.current": reserved - current,
            "num_alloc_retries": counts.retries,
            "num_ooms": counts.failures,
            "reserved_bytes.all.current": reserved,
            "reserved_bytes.all.peak": counts.reserved(reserved),
        }
    )


def memory_stats_as_nested_dict(device: Any = None) -> dict[str, Any]:
    """The same as dictionaries of dictionaries."""
    nested: dict[str, Any] = {}
    for name, value in memory_stats(device).items():
        *path, last = name.split(".")
        inner = nested
        for part in path:
            inner = inner.setdefault(part, {})
        inner[last] = value
    return nested


def host_memory_stats(device: Any = None) -> OrderedDict[str, Any]:
    """Statistics of pinned memory, which are not kept."""
    return OrderedDict()


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """Bytes of the GPU that are free, for all programs, and all of its bytes."""
    return gpu("mem_get_info").runtime.memory()


def memory_summary(device: Any = None, abbreviated: bool = False) -> str:
    """The counts as a table for people."""
    driver = gpu("memory_summary", KeyError)
    counts, (free, total) = driver.runtime.counts, driver.runtime.memory()
    rows = [
        ("", "now", "at most"),
        ("tensors", readable(counts.current), readable(counts.peak)),
        ("reserved", readable(memory_reserved()), readable(max_memory_reserved())),
        ("pieces", str(counts.pieces - counts.pieces_back), str(counts.peak_pieces)),
        ("free", readable(free), f"of {readable(total)}"),
        ("second tries", str(counts.retries), f"{counts.failures} failed"),
    ]
    lines = [f"memory of cuda:{driver.index}"]
    lines += [f"  {name:<14}{now:>12}{most:>14}" for name, now, most in rows]
    return "\n".join(lines)


def set_per_process_memory_fraction(fraction: float, device: Any = None) -> None:
    """Tensors get no more than this part of the GPU's memory."""
    driver = gpu("set_per_process_memory_fraction")
    if not 0 <= fraction <= 1:
        rule = f"Invalid fraction value: {fraction}. Allowed range: 0~1"
        raise error(ValueError, "torch.cuda.set_per_process_memory_fraction", rule)
    driver.runtime.limit(fraction)


def get_allocator_backend() -> str:
    """Who gives memory out: CuPy's pool, which in PyTorch's words is native."""
    gpu("get_allocator_backend", AttributeError)
    return "native"


def list_gpu_processes(device: Any = None) -> str:
    """The programs that use a GPU, which NVIDIA's library would know."""
    return "pynvml module not found, please install nvidia-ml-py"


def memory_usage(device: Any = None) -> int:
    """The part of the GPU's memory that is in use, in percent."""
    rule = "nvidia-ml-py does not seem to be installed or it can't be imported."
    free, total = gpu("memory_usage", ModuleNotFoundError, rule).runtime.memory()
    return round(100 * (total - free) / total)


def device_memory_used(device: Any = None) -> int:
    """Bytes of the GPU that all programs together use."""
    rule = "nvidia-ml-py does not seem to be installed or it can't be imported."
    free, total = gpu("device_memory_used", ModuleNotFoundError, rule).runtime.memory()
    return total - free


def get_per_process_memory_fraction(device: Any = None) -> float:
    """The part of the GPU's memory that tensors may take."""
    driver = gpu("get_per_process_memory_fraction")
    index_of("get_per_process_memory_fraction", device)
    limit = driver.runtime.cupy.get_default_memory_pool().get_limit()
    return limit / driver.runtime.memory()[1] if limit else 1.0


# Pictures of memory at a moment, which are not taken; PyTorch without CUDA raises AttributeError, too.
globals().update(all_refusing("memory_snapshot _dump_snapshot", AttributeError, "no snapshots are taken"))


def _record_memory_history(*args: Any, **kwargs: Any) -> None:
    """Accepted where there is a GPU: no history is kept."""
    if started() is None:
        raise refusal("_record_memory_history", AttributeError)
