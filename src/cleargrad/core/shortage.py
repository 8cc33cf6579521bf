"""Out of memory: what was asked for, what is free, and which micro-batch would fit.

A failed allocation and the operands of the op come in; the exception to raise goes out. Activations grow with the
batch, so that the part of a batch that fits can be told from the two sizes. Read next: core/dtype.py.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from cleargrad.errors import OutOfMemoryError, error

UNITS = {"bytes": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40, "PiB": 2**50, "EiB": 2**60}
ROOM = 2  # the rest of a step needs memory as well: so many times what the failed op asked for


@dataclass(frozen=True)
class Shortage:
    """What is known when a device has no memory left, in bytes."""

    device: str
    asked: int
    free: int
    held: int  # by tensors
    total: int


def out_of_memory(op: str, known: Shortage, operands: Iterable[Any] = ()) -> OutOfMemoryError:
    """The error of a device, in words that programs look for."""
    rule = f"CUDA out of memory. Tried to allocate {readable(known.asked)}."
    fix = advice(known.asked, known.free, batch_of(operands))
    if known.asked <= known.free:
        fix = "there is room, in pieces: torch.cuda.empty_cache() gives back what is kept for later"
    found: Any = error(
        OutOfMemoryError,
        op,
        rule,
        **{
            "asked for": readable(known.asked),
            "free": f"{readable(known.free)} of {readable(known.total)} on {known.device}",
            "held": f"{readable(known.held)} by tensors of this program",
            "fix": f"{fix}; or keep less for backward, with torch.utils.checkpoint",
        },
    )
    found.shortage = known
    return found


def shortage(op: str, failure: BaseException, operands: Iterable[Any] = ()) -> Exception:
    """The error of an op that could not get its memory."""
    asked, free = bytes_asked(str(failure)), free_memory()
    facts: dict[str, Any] = {}
    if asked is not None:
        facts["asked for"] = readable(asked)
    if free is not None:
        facts["free"] = readable(free)
    fix = advice(asked, free, batch_of(operands))
    return error(RuntimeError, op, f"not enough memory: {failure}", fix=fix, **facts)


def advice(asked: int | None, free: int | None, batch: int | None) -> str:
    """Which micro-batch would fit, and over how many of them gradients would be accumulated."""
    usual = (
        "make the batch smaller and accumulate gradients over several, or free tensors that are not needed"
    )
    if asked is None or free is None or batch is None or free <= 0:
        return usual
    parts = 2 ** max(1, math.ceil(math.log2(ROOM * asked / free)))
    if parts > batch:
        return "not even a batch of one would fit: make the model, or what is computed per example, smaller"
    micro = batch // parts
    return (
        f"a micro-batch of about {micro} would fit instead of {batch}: accumulate gradients over {parts} "
        f"micro-batches, with the loss divided by {parts}, before each optimizer.step()"
    )


def batch_of(operands: Iterable[Any]) -> int | None:
    """The first dimension of the largest operand, which is the batch in most programs."""
    shapes = [tuple(shape) for each in operands if (shape := getattr(each, "shape", None))]
    largest = max(shapes, key=math.prod, default=None)
    return None if largest is None or len(largest) < 2 or largest[0] < 2 else int(largest[0])


def bytes_asked(message: str) -> int | None:
    """What NumPy says that it could not allocate."""
    found = re.search(r"([\d.]+) (bytes|[KMGTPE]iB)", message)
    return None if found is None else int(float(found[1]) * UNITS[found[2]])


def free_memory() -> int | None:
    """Memory that the process could still get: the system's, or less where a limit is set for the process."""
    try:
        with open("/proc/meminfo") as file:
            lines = dict(line.split(":", 1) for line in file)
        free = int(lines["MemAvailable"].split()[0]) * 1024
        return min(free, within_limit(free))
    except (OSError, KeyError, ValueError):
        return None


def within_limit(free: int) -> int:
    """What a limit on address space leaves."""
    import resource

    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit == resource.RLIM_INFINITY:
        return free
    with open("/proc/self/statm") as file:
        return max(0, limit - int(file.read().split()[0]) * resource.getpagesize())


def readable(size: int) -> str:
    unit = next((name for name, worth in reversed(UNITS.items()) if size >= worth), "bytes")
    return f"{size / UNITS[unit]:.3g} {unit}"
