"""Exchanges between the processes of a group. With one process the sum, the mean and every copy are the tensor.

Read next: distributed/process_group.py.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, NoReturn

from cleargrad.autograd.modes import no_grad
from cleargrad.core.tensor import Tensor
from cleargrad.distributed.process_group import group_of
from cleargrad.errors import error


class ReduceOp(IntEnum):
    """How tensors of several processes become one."""

    SUM = 0
    AVG = 1
    PRODUCT = 2
    MIN = 3
    MAX = 4
    BAND = 5
    BOR = 6
    BXOR = 7
    PREMUL_SUM = 8


class Work:
    """An exchange that runs beside the program; here it is over at once."""

    def wait(self, timeout: Any = None) -> bool:
        return True

    def is_completed(self) -> bool:
        return True

    def is_success(self) -> bool:
        return True


def done(async_op: bool) -> Work | None:
    return Work() if async_op else None


def check(name: str, group: Any, *tensors: Any) -> None:
    """There must be a group, and what is exchanged must be tensors."""
    group_of(name, group)
    for tensor in tensors:
        if not isinstance(tensor, Tensor):
            rule = f"Invalid function argument. Expected a torch.Tensor but got {type(tensor)} instead."
            raise error(TypeError, name, rule)


def check_root(name: str, root: int | None, group_root: int | None) -> None:
    number = root if root is not None else group_root
    if number not in (None, 0):
        raise error(RuntimeError, name, f"invalid root rank: {number}")


def check_list(name: str, items: Any) -> Any:
    """The one element of a list that has one per process."""
    if items is None or len(items) != 1:
        found = None if items is None else len(items)
        raise error(RuntimeError, name, f"invalid tensor list (expected length 1, got {found})")
    return items[0]


def copy(target: Tensor, source: Tensor) -> None:
    with no_grad():
        target.copy_(source.reshape(target.shape))


def all_reduce(
    tensor: Tensor, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Work | None:
    """The sum over all processes, in place: of one tensor, itself."""
    check("all_reduce", group, tensor)
    return done(async_op)


def reduce(
    tensor: Tensor,
    dst: int | None = None,
    op: Any = ReduceOp.SUM,
    group: Any = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """The sum over all processes, in place in one of them."""
    check("reduce", group, tensor)
    check_root("reduce", dst, group_dst)
    return done(async_op)


def broadcast(
    tensor: Tensor,
    src: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:
    """One process's tensor in all processes."""
    check("broadcast", group, tensor)
    check_root("broadcast", src, group_src)
    return done(async_op)


def all_gather(tensor_list: list, tensor: Tensor, group: Any = None, async_op: bool = False) -> Work | None:
    """Every process's tensor, in a list."""
    check("all_gather", group, tensor, *tensor_list)
    copy(check_list("all_gather", tensor_list), tensor)
    return done(async_op)


def all_gather_into_tensor(
    output_tensor: Tensor, input_tensor: Tensor, group: Any = None, async_op: bool = False
) -> Work | None:
    """Every process's tensor, one behind the other."""
    check("all_gather_into_tensor", group, output_tensor, input_tensor)
    copy(output_tensor, input_tensor)
    return done(async_op)


def gather(
    tensor: Tensor,
    gather_list: list | None = None,
    dst: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """Every process's tensor, in a list of one process."""
    check("gather", group, tensor)
    check_root("gather", dst, group_dst)
    copy(check_list("gather", gather_list), tensor)
    return done(async_op)


def scatter(
    tensor: Tensor,
    scatter_list: list | None = None,
    src: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:
    """A list of one process, one tensor for each process."""
    check("scatter", group, tensor)
    check_root("scatter", src, group_src)
    copy(tensor, check_list("scatter", scatter_list))
    return done(async_op)


def reduce_scatter(
    output: Tensor, input_list: list, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Work | None:
    """Lists of all processes, summed, one tensor for each process."""
    check("reduce_scatter", group, output, *input_list)
    copy(output, check_list("reduce_scatter", input_list))
    return done(async_op)


def reduce_scatter_tensor(
    output: Tensor, input: Tensor, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Work | None:
    """Tensors of all processes, summed, one part for each process."""
    check("reduce_scatter_tensor", group, output, input)
    copy(output, input)
    return done(async_op)


def all_to_all(
    output_tensor_list: list, input_tensor_list: list, group: Any = None, async_op: bool = False
) -> Work | None:
    """Each process's k-th tensor to process k."""
    check("all_to_all", group, *output_tensor_list, *input_tensor_list)
    copy(check_list("all_to_all", output_tensor_list), check_list("all_to_all", input_tensor_list))
    return done(async_op)


def all_to_all_single(
    output: Tensor,
    input: Tensor,
    output_split_sizes: Any = None,
    input_split_sizes: Any = None,
    group: Any = None,
    async_op: bool = False,
) -> Work | None:
    """Each process's k-th part to process k."""
    check("all_to_all_single", group, output, input)
    copy(output, input)
    return done(async_op)


def barrier(
    group: Any = None, async_op: bool = False, device_ids: Any = None, timeout: Any = None
) -> Work | None:
    """Waits for all processes."""
    check("barrier", group)
    return done(async_op)


def monitored_barrier(group: Any = None, timeout: Any = None, wait_all_ranks: bool = False) -> None:
    check("monitored_barrier", group)


# Any Python object -----------------------------------------------------------------------------------------


def all_gather_object(object_list: list, obj: Any, group: Any = None) -> None:
    """Every process's object, in a list."""
    check("all_gather_object", group)
    object_list[0] = obj


def broadcast_object_list(
    object_list: list,
    src: int | None = None,
    group: Any = None,
    device: Any = None,
    group_src: int | None = None,
) -> None:
    """One process's objects in all processes."""
    check("broadcast_object_list", group)
    check_root("broadcast_object_list", src, group_src)


def gather_object(
    obj: Any,
    object_gather_list: list | None = None,
    dst: int | None = None,
    group: Any = None,
    group_dst: int | None = None,
) -> None:
    """Every process's object, in a list of one process."""
    check("gather_object", group)
    check_root("gather_object", dst, group_dst)
    if object_gather_list is not None:
        object_gather_list[0] = obj


def scatter_object_list(
    scatter_object_output_list: list,
    scatter_object_input_list: list | None = None,
    src: int | None = None,
    group: Any = None,
    group_src: int | None = None,
) -> None:
    """A list of one process, one object for each process."""
    check("scatter_object_list", group)
    check_root("scatter_object_list", src, group_src)
    scatter_object_output_list[0] = check_list("scatter_object_list", scatter_object_input_list)


def _nobody(*args: Any, **kwargs: Any) -> NoReturn:
    check("send", None)
    raise error(ValueError, "send", "there is no other process to exchange tensors with")


send = recv = isend = irecv = _nobody
