"""Copies from one layout and dtype to another, by a kernel made for the pair. Read next: devices/cuda/driver.py."""

from __future__ import annotations

import numpy as np

from cleargrad.devices.cuda.nests import kernels_of
from cleargrad.devices.cuda.runtime import Runtime
from cleargrad.expr.expr import identity, trace
from cleargrad.schedule.formulas import Buffer, Formulas
from cleargrad.schedule.fuse import Member, Nest, merge
from cleargrad.schedule.statements import working_of

IDENTITY = trace(lambda x: identity(x))[0]


class Copying:
    """The kernel that copies between two layouts."""

    def __init__(self, runtime: Runtime, target: np.ndarray, source: np.ndarray) -> None:
        self.runtime = runtime
        formulas = Formulas()
        shape = target.shape
        steps = [tuple(step // x.itemsize for step in x.strides) for x in (target, source)]
        place, load = (
            formulas.load(Buffer(k, shape, x.dtype, "input", strides), shape, strides)
            for k, (x, strides) in enumerate(zip((target, source), steps))
        )
        extents = merge(shape, [place.strides, load.strides]) or (1,)
        places = [formulas.reshape(each, extents) for each in (place, load)]
        if None in places:
            extents, places = shape, [place, load]
        working = working_of(target.dtype)
        formula = formulas.map(IDENTITY, (places[1],), working, target.dtype, extents)
        (self.launch,) = kernels_of(Nest((), extents, [Member(places[0], formula)])).launches  # type: ignore[arg-type]
        self.order = [1 if word[1].buffer.number else 0 for word in self.launch.words]
        runtime.load([(self.launch.name, self.launch.source)])

    def run(self, target: np.ndarray, source: np.ndarray) -> None:
        arrays = (target, source)
        words = np.array([arrays[k].__array_interface__["data"][0] for k in self.order], np.int64)
        self.runtime.launch(
            self.launch.name, self.launch.grid, self.launch.block, words.__array_interface__["data"][0]
        )
