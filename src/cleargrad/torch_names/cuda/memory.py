"""torch.cuda.memory: the memory of GPUs, none of which is in use. Read next: cuda/random.py."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from cleargrad.cuda.refusal import all_refusing


def empty_cache() -> None:
    """Nothing to do: no memory is kept for a GPU."""


def _nothing(device: Any = None) -> int:
    """No bytes."""
    return 0


memory_allocated = max_memory_allocated = memory_reserved = max_memory_reserved = _nothing
memory_cached = max_memory_cached = _nothing


def memory_stats(device: Any = None) -> OrderedDict[str, Any]:
    """No statistics."""
    return OrderedDict()


def memory_stats_as_nested_dict(device: Any = None) -> dict[str, Any]:
    return {}


host_memory_stats = memory_stats

globals().update(all_refusing("mem_get_info set_per_process_memory_fraction get_per_process_memory_fraction"))
# PyTorch raises AttributeError here, for functions that a build without CUDA does not have.
globals().update(
    all_refusing(
        "reset_peak_memory_stats reset_max_memory_allocated reset_max_memory_cached memory_snapshot "
        "reset_accumulated_memory_stats get_allocator_backend _record_memory_history _dump_snapshot",
        AttributeError,
    )
)
globals().update(all_refusing("memory_summary", KeyError))
