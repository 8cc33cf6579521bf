"""Training on a GPU: calls that wait, programs that are graphs, and single calls give the same bits."""

from __future__ import annotations

import pytest

import cleargrad as cg
from cleargrad.bench.architectures import EVERY
from cleargrad.bench.workloads import Setup
from cleargrad.compile import beside
from cleargrad.compile.script import waiting
from cleargrad.devices.cuda.driver import Cuda

STEPS = 7  # the last ones are replays of a graph
SIZES = {"adam": 0, "cnn": 2, "resnet": 2, "vit": 2, "unet": 1}


def losses(name: str, wait: bool) -> list[float]:
    """What a workload has got to at every step, looked at when all is over."""
    with cg.device("cuda"):
        task = EVERY[name].make(cg, Setup())
        batches = [task.data(SIZES.get(name, 3), number) for number in range(4)]
        switch = waiting() if wait else None
        try:
            found = []
            for step in range(STEPS):
                found.append(task.step(*batches[step % 4]))
                cg.cuda.synchronize()
                beside.wait()
            return [task.value(found[-1]), *(float(loss) for loss in found if loss is not None)]
        finally:
            if switch is not None:
                programs = [end.program for end in switch.waiter.tree.endings if end.program is not None]
                switch.__exit__(None)
                assert any(program.graph is not None for program in programs)


@pytest.mark.parametrize(
    "name",
    [
        "linear",
        "mlp",
        "cnn",
        "lstm",
        "gpt",
        "gpt4",
        "adam",
        "gru",
        "deep",
        "bag",
        "encoder",
        "audio",
        "vit",
        "resnet",
        "mobilenet",
        "unet",
    ],
)
def test_bits_do_not_depend_on_the_way(cuda: Cuda, name: str) -> None:
    alone = losses(name, wait=False)
    assert losses(name, wait=True) == alone
    assert not cuda.on_host, "calls were made by the CPU"
