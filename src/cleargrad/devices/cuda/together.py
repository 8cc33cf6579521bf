"""Horizontal fusion: entries of a schedule that do not need each other are asked for by one launch.

A step of training has hundreds of small kernels (norms of gradients, updates of parameters), and starting them
takes most of the time. `levels` puts every entry as early as what it needs allows; what is large
keeps its order, so that no more memory is alive than was planned. `combined` writes one kernel for several: blocks
find by their number which of them they belong to. Read next: devices/cuda/runtime.py.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from cleargrad.devices.cuda.nests import Launch
from cleargrad.schedule.formulas import Buffer
from cleargrad.schedule.lifetimes import reads_of, writes_of

LARGE = 1 << 20  # bytes, from which on results keep their order
WORDS = 500  # that a kernel can be given
SHARED = 40_000  # bytes of shared memory that the parts of one kernel may take together
PARTS = 12  # texts in one kernel

Part = tuple[Launch, Any]  # a kernel, and the entry that it belongs to


def levels(
    entries: list[Any], memory_of: Callable[[Buffer], Hashable], is_alone: Callable[[Any], bool]
) -> list[list[Any]]:
    """Entries in groups that come one after the other; within one, none touches what another one writes."""
    written: dict[Hashable, int] = {}  # the level at which memory was written last
    seen: dict[Hashable, int] = {}  # and at which it was touched last
    found: list[list[Any]] = []
    large = least = 0
    for entry in entries:
        reads = {memory_of(load.buffer) for load in reads_of(entry)}
        writes = {memory_of(buffer) for buffer in writes_of(entry)}
        level = max([least, *[written.get(each, -1) + 1 for each in reads | writes]])
        level = max([level, *[seen.get(each, -1) + 1 for each in writes]])
        if is_alone(entry):
            level = least = len(found)
            least += 1
        elif sum(buffer.size * buffer.dtype.itemsize for buffer in writes_of(entry)) >= LARGE:
            level = large = max(level, large)
        while len(found) <= level:
            found.append([])
        found[level].append(entry)
        for each in writes:
            written[each] = level
        for each in reads | writes:
            seen[each] = max(seen.get(each, -1), level)
    return found


def stages(parts: list[list[Part]]) -> list[list[Part]]:
    """First kernels of all, then second ones: in runs that one launch can ask for."""
    found = []
    for depth in range(max(map(len, parts), default=0)):
        alike: dict[tuple, list[Part]] = {}
        for part in [kernels[depth] for kernels in parts if len(kernels) > depth]:
            alike.setdefault(part[0].block if part[0].parted else (id(part[0]),), []).append(part)
        for some in alike.values():
            some.sort(key=lambda part: part[0].name)
            found += runs(some)
    return found


def runs(parts: list[Part]) -> list[list[Part]]:
    """As many in a row as fit into one kernel."""
    found: list[list[Part]] = [[]]
    words = shared = 0
    texts: set[str] = set()
    for part in parts:
        launch = part[0]
        words += len(launch.words)
        if launch.name not in texts:
            texts.add(launch.name)
            shared += launch.shared
        if found[-1] and (words > WORDS or shared > SHARED or len(texts) > PARTS):
            found.append([])
            words, shared, texts = len(launch.words), launch.shared, {launch.name}
        found[-1].append(part)
    return [run for run in found if run]


def combined(parts: list[Part]) -> Launch:
    """One kernel for several of one shape of blocks, in which those of one text stand side by side."""
    if len(parts) == 1:
        return parts[0][0]
    texts: dict[str, list[Launch]] = {}
    for launch, _ in parts:
        texts.setdefault(launch.name, []).append(launch)
    functions, choices, first, words = [], [], 0, 0
    for number, some in enumerate(texts.values()):
        launch, name = some[0], f"part{number}"
        body = launch.body.replace("blockIdx.x", "bx").replace("blockIdx.y", "by").replace("words.w[", "w[")
        functions.append(f"DEVICE void @_{name}(const i64* w, const int bx, const int by) {{\n{body}\n}}\n")
        across, blocks = launch.grid[0], launch.grid[0] * launch.grid[1]
        beyond = first + blocks * len(some)
        which = f"(b - {first}) / {blocks}" if len(some) > 1 else "0"
        inside = f"(b - {first}) % {blocks}"
        choices.append(
            f"if (b < {beyond}) @_{name}(words.w + {words} + {which} * {len(launch.words)}, "
            f"{inside} % {across}, {inside} / {across});"
        )
        first, words = beyond, words + len(launch.words) * len(some)
    body = "const int b = blockIdx.x;\n" + "\nelse ".join(choices)
    every = [word for launch, _ in parts for word in launch.words]
    return Launch(body, (first, 1, 1), parts[0][0].block, every, "".join(functions), parted=False)
