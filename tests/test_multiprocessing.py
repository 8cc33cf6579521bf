"""torch.multiprocessing: shared memory is shared, spawn reports what went wrong."""

from __future__ import annotations

import os
import time
from typing import Any

import pytest

import cleargrad as cg
import cleargrad.multiprocessing as mp


def add_rank(rank: int, model: Any, numbers: Any, lock: Any) -> None:
    with lock, cg.no_grad():  # an addition reads and writes: two at a time would lose one
        for parameter in model.parameters():
            parameter.add_(rank + 1)
        numbers[rank] = rank + 10


def fail_in_one(rank: int) -> None:
    if rank == 1:
        raise ValueError("bad luck")
    time.sleep(60)


def leave(rank: int) -> None:
    os._exit(3)


def add_five(inbox: Any, outbox: Any) -> None:
    inbox.get().add_(5)
    outbox.put("done")


@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_processes_write_to_shared_memory(method: str) -> None:
    model = cg.nn.Linear(2, 1)
    before = model.weight.detach().clone()
    model.share_memory()
    numbers = cg.zeros(3).share_memory_()
    assert numbers.is_shared() and model.weight.is_shared() and numbers[1:].is_shared()
    assert not cg.zeros(3).is_shared()
    lock = mp.get_context(method).Lock()
    mp.start_processes(add_rank, args=(model, numbers, lock), nprocs=2, start_method=method)
    assert numbers.tolist() == [10, 11, 0]
    cg.testing.assert_close(model.weight.detach(), before + 3)
    model(cg.ones(1, 2)).sum().backward()
    cg.optim.SGD(model.parameters(), lr=1.0).step()
    assert model.weight.is_shared()


def test_a_queue_sends_shared_memory_by_reference() -> None:
    context = mp.get_context("fork")
    inbox, outbox = context.Queue(), context.Queue()
    process = context.Process(target=add_five, args=(inbox, outbox))
    process.start()
    tensor = cg.zeros(2).share_memory_()
    inbox.put(tensor)
    assert outbox.get(timeout=30) == "done"
    process.join()
    assert tensor.tolist() == [5, 5]


def test_one_failure_ends_all() -> None:
    start = time.monotonic()
    with pytest.raises(
        mp.ProcessRaisedException, match=r"Process 1 terminated[\s\S]*ValueError: bad luck"
    ) as e:
        mp.start_processes(fail_in_one, nprocs=2, start_method="fork")
    assert e.value.error_index == 1
    assert time.monotonic() - start < 30


def test_an_exit_code_is_told() -> None:
    with pytest.raises(mp.ProcessExitedException, match="exit code 3") as e:
        mp.start_processes(leave, nprocs=1, start_method="fork")
    assert e.value.exit_code == 3


def test_sharing_strategies() -> None:
    assert mp.get_sharing_strategy() in mp.get_all_sharing_strategies()
    mp.set_sharing_strategy("file_system")
    assert mp.get_sharing_strategy() == "file_system"
    mp.set_sharing_strategy("file_descriptor")
    with pytest.raises(AssertionError):
        mp.set_sharing_strategy("telepathy")
