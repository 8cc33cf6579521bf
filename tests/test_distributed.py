"""torch.distributed with one process: as PyTorch's gloo backend with world size 1."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.distributed

import cleargrad as cg
from tests.oracle import failure, same


def start(T: Any) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    T.distributed.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=0, world_size=1)


@pytest.fixture
def group() -> Iterator[None]:
    for T in (torch, cg):
        start(T)
    yield
    for T in (torch, cg):
        T.distributed.destroy_process_group()
        assert not T.distributed.is_initialized()


def test_without_a_group(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)

    def run(T: Any) -> Any:
        dist = T.distributed
        calls = (
            dist.get_rank,
            dist.get_world_size,
            dist.get_backend,
            dist.barrier,
            dist.destroy_process_group,
            dist.get_node_local_rank,
            lambda: dist.all_reduce(T.ones(2)),
            lambda: dist.init_process_group("gloo"),
            lambda: dist.init_process_group("gloo", rank=0),
            lambda: dist.init_process_group("nccl", init_method="tcp://127.0.0.1:1", rank=0, world_size=1),
            lambda: dist.init_process_group("gloo", init_method="tcp://127.0.0.1:1"),
            lambda: T.utils.data.DistributedSampler(range(5)),
            lambda: T.nn.parallel.DistributedDataParallel(T.nn.Linear(1, 1)),
        )
        said = [failure(call) for call in calls]
        return said, dist.is_initialized(), dist.is_nccl_available()

    same(run)
    assert not cg.distributed.is_available()  # several processes cannot be had; PyTorch says yes here


def test_several_processes_are_refused() -> None:
    with pytest.raises(NotImplementedError, match="one process, and world_size is 2"):
        cg.distributed.init_process_group("gloo", init_method="tcp://127.0.0.1:1", rank=0, world_size=2)
    assert not cg.distributed.is_initialized()


def test_exchanges(group: None) -> None:
    def run(T: Any) -> Any:
        dist = T.distributed
        x = T.tensor([1.0, 2.0])
        one, several, into = T.zeros(2), [T.zeros(2)], T.zeros(2)
        said = [dist.get_rank(), dist.get_world_size(), dist.get_backend(), dist.barrier()]
        said += [dist.all_reduce(x), dist.all_reduce(x, op=dist.ReduceOp.MAX), dist.broadcast(x, 0)]
        said += [dist.reduce(x, 0), dist.all_reduce(x, async_op=True).wait()]
        dist.all_gather(several, x)
        dist.all_gather_into_tensor(into, x)
        dist.scatter(one, [x * 2], 0)
        objects: list = [None]
        dist.all_gather_object(objects, {"a": 1})
        gathered = [T.zeros(2)]
        dist.gather(x, gathered, 0)
        scattered = T.zeros(2)
        dist.reduce_scatter(scattered, [x])
        said += [several, into, one, objects, gathered, scattered, x]
        said += [failure(lambda: dist.broadcast(x, 1)), failure(lambda: dist.all_reduce(3))]
        said += [failure(lambda: dist.all_gather([x, x], x)), failure(lambda: start(T))]
        said += [dist.new_group([0]) is not None, failure(lambda: dist.new_group([0, 1]))]
        said.append(list(T.utils.data.DistributedSampler(range(7))))
        return said

    same(run)


def test_data_parallel_modules(group: None) -> None:
    def run(T: Any) -> Any:
        said = []
        for wrap in (T.nn.DataParallel, T.nn.parallel.DistributedDataParallel):
            T.manual_seed(0)
            model = wrap(T.nn.Linear(3, 2))
            optimizer = T.optim.SGD(model.parameters(), lr=0.1)
            loss = model(T.ones(4, 3)).square().mean()
            loss.backward()
            optimizer.step()
            said.append((loss.detach(), list(model.state_dict()), repr(model), type(model.module).__name__))
            said.append([parameter.detach() for parameter in model.parameters()])
        distributed = T.nn.parallel.DistributedDataParallel(T.nn.Linear(3, 2))
        with distributed.no_sync():
            distributed(T.ones(1, 3)).sum().backward()
        said.append(distributed.module.weight.grad)
        said.append(failure(lambda: T.nn.parallel.DistributedDataParallel(T.nn.ReLU())))
        said.append(failure(lambda: T.nn.parallel.DistributedDataParallel(T.nn.Linear(1, 1), device_ids=[0])))
        return said

    same(run)


def test_the_environment_of_torchrun(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0"}.items():
        monkeypatch.setenv(name, value)
    cg.distributed.init_process_group("gloo")
    assert (cg.distributed.get_rank(), cg.distributed.get_node_local_rank()) == (0, 0)
    cg.distributed.destroy_process_group()
