"""torch.distributed for one process: a group of size one, in which every exchange gives back what was put in.

Programs written for several processes run as the only one of them; asking for more is refused in one sentence.
Read next: distributed/collectives.py.
"""

from __future__ import annotations

import os
from datetime import timedelta
from typing import Any

from cleargrad.distributed.collectives import (
    ReduceOp,
    Work,
    all_gather,
    all_gather_into_tensor,
    all_gather_object,
    all_reduce,
    all_to_all,
    all_to_all_single,
    barrier,
    broadcast,
    broadcast_object_list,
    gather,
    gather_object,
    irecv,
    isend,
    monitored_barrier,
    recv,
    reduce,
    reduce_scatter,
    reduce_scatter_tensor,
    scatter,
    scatter_object_list,
    send,
)
from cleargrad.distributed.process_group import NOT_INITIALIZED, ProcessGroup, group, group_of
from cleargrad.errors import error

reduce_op = ReduceOp
GroupMember = group
default_pg_timeout = timedelta(minutes=30)
BACKENDS = ("gloo", "mpi", "nccl", "ucc", "xccl")


class Backend(str):
    """The name of a way to exchange data."""

    GLOO, MPI, NCCL, UCC, UNDEFINED = "gloo", "mpi", "nccl", "ucc", "undefined"


class DistError(RuntimeError):
    """An error of torch.distributed."""


DistBackendError = DistNetworkError = DistStoreError = DistError


def is_available() -> bool:
    """Whether several processes can work together: no.

    Libraries that hear yes import tensor parallelism and sharding; a program that works alone need not ask.
    """
    return False


def is_initialized() -> bool:
    """Whether init_process_group was called."""
    return group.WORLD is not None


def is_gloo_available() -> bool:
    """Programs choose gloo on a CPU; its place is taken by the one process alone."""
    return True


def is_nccl_available() -> bool:
    return False


def is_mpi_available() -> bool:
    return False


def is_ucc_available() -> bool:
    return False


def is_xccl_available() -> bool:
    return False


def is_backend_available(backend: str) -> bool:
    return backend.lower() == "gloo"


def is_torchelastic_launched() -> bool:
    return "TORCHELASTIC_RUN_ID" in os.environ


def init_process_group(
    backend: str | None = None,
    init_method: str | None = None,
    timeout: timedelta | None = None,
    world_size: int = -1,
    rank: int = -1,
    store: Any = None,
    group_name: str = "",
    pg_options: Any = None,
    device_id: Any = None,
    _ranks: Any = None,
) -> None:
    """Starts the group of all processes, which is this one."""
    name = "init_process_group"
    if group.WORLD is not None:
        raise error(ValueError, name, "trying to initialize the default process group twice!")
    kind = "undefined" if backend is None else check_backend(str(backend).lower())
    rank, world_size = found_place(init_method, rank, world_size)
    if world_size != 1:
        rule = f"cleargrad trains in one process, and world_size is {world_size}"
        raise error(NotImplementedError, name, rule, fix="start the program once, without torchrun")
    if rank != 0:
        raise error(ValueError, name, f"rank must be 0 in a group of one process, got {rank}")
    group.WORLD = ProcessGroup(kind)


def check_backend(backend: str) -> str:
    names = [part.rpartition(":")[2] for part in backend.split(",")]
    for name in names:
        if name not in BACKENDS:
            raise error(AssertionError, "init_process_group", f"Unknown backend type {backend}")
    if names == ["nccl"]:
        rule = "Distributed package doesn't have NCCL built in"
        raise error(RuntimeError, "init_process_group", rule, fix="use the backend 'gloo' on a CPU")
    return backend


def found_place(init_method: str | None, rank: int, world_size: int) -> tuple[int, int]:
    """Rank and world size, from the arguments or, as `torchrun` leaves them, from the environment."""
    given = {"rank": rank, "world_size": world_size}
    from_environment = init_method is None or init_method.startswith("env://")
    for name, value in given.items():
        if value >= 0:
            continue
        if not from_environment:
            scheme = str(init_method).partition("://")[0]
            rule = (
                f"Error initializing torch.distributed using {scheme}:// rendezvous: {name} parameter missing"
            )
            raise error(ValueError, "init_process_group", rule)
        variable = name.upper()
        if variable not in os.environ:
            rule = (
                "Error initializing torch.distributed using env:// rendezvous: environment variable "
                f"{variable} expected, but not set"
            )
            raise error(ValueError, "init_process_group", rule, fix="pass rank=0 and world_size=1")
        given[name] = int(os.environ[variable])
    return given["rank"], given["world_size"]


def destroy_process_group(group: ProcessGroup | None = None) -> None:
    """Ends the group of all processes."""
    world = GroupMember.WORLD
    if world is None:
        raise error(AssertionError, "destroy_process_group", "Process group cannot be None")
    if group is None or group is world:
        GroupMember.WORLD = None


def get_rank(group: ProcessGroup | None = None) -> int:
    """The number of this process: 0."""
    group_of("get_rank", group)
    return 0


def get_world_size(group: ProcessGroup | None = None) -> int:
    """The number of processes: 1."""
    group_of("get_world_size", group)
    return 1


def get_backend(group: ProcessGroup | None = None) -> str:
    return group_of("get_backend", group).backend


def get_process_group_ranks(group: ProcessGroup | None) -> list[int]:
    group_of("get_process_group_ranks", group)
    return [0]


def get_node_local_rank(fallback_rank: int | None = None) -> int:
    """The number of this process on its machine, from the environment."""
    if "LOCAL_RANK" in os.environ:
        return int(os.environ["LOCAL_RANK"])
    if fallback_rank is None:
        rule = "LOCAL_RANK is not in the environment."
        raise error(RuntimeError, "get_node_local_rank", rule, fix="pass fallback_rank")
    return int(fallback_rank)


def new_group(ranks: Any = None, *args: Any, **kwargs: Any) -> ProcessGroup:
    """A group of some of the processes; there is one to choose from."""
    world = group_of("new_group", None)
    if ranks is not None and list(ranks) != [0]:
        rule = (
            "the new group's world size should be less or equal to the world size set by init_process_group"
        )
        raise error(ValueError, "new_group", rule, ranks=list(ranks))
    return ProcessGroup(world.backend)
