"""DataLoader with worker processes: PyTorch's batches and seeds, its errors, and nothing left behind."""

from __future__ import annotations

import gc
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from torch._utils import ExceptionWrapper

import cleargrad as cg
from cleargrad.utils.data import DataLoader, Dataset, TensorDataset, get_worker_info
from cleargrad.utils.data.worker import Failure
from tests.data.both import same

# Python 3.12 warns when a process with threads forks, and PyTorch has threads.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning"),
]


@pytest.fixture(autouse=True)
def no_process_is_left():
    yield
    gc.collect()
    assert not multiprocessing.active_children()


class Numbers(Dataset):
    """Samples with one random number from each source."""

    def __init__(self, torch=cg, count=11):
        self.torch = torch
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return index, random.random(), np.random.rand(), self.torch.rand(2), f"name {index}"


class Large(Dataset):
    def __len__(self):
        return 12

    def __getitem__(self, index):
        return np.full((64, 65), index, np.float32), index


class Failing(Dataset):
    def __init__(self, exception):
        self.exception = exception

    def __len__(self):
        return 6

    def __getitem__(self, index):
        if index == 2:
            raise self.exception
        return index


class Slow(Dataset):
    def __init__(self, seconds):
        self.seconds = seconds

    def __len__(self):
        return 8

    def __getitem__(self, index):
        time.sleep(self.seconds if index == 0 else 0)
        return index


class Dying(Dataset):
    def __init__(self, how):
        self.how = how

    def __len__(self):
        return 8

    def __getitem__(self, index):
        if index == 3:
            self.how()
        return index


def kill_myself():
    os.kill(os.getpid(), signal.SIGKILL)


def leave():
    os._exit(3)


# Batches ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {"batch_size": 2},
        {"batch_size": 2, "shuffle": True, "drop_last": True},
        {"batch_size": None, "shuffle": True},
        {"batch_size": 3, "shuffle": True, "prefetch_factor": 5},
        {"batch_sampler": [[3, 1], [2], [5, 5]]},
    ],
    ids=str,
)
def test_batches_and_seeds(options):
    def program(torch):
        loader = torch.utils.data.DataLoader(Numbers(torch), num_workers=2, **options)
        return [list(loader), list(loader)]

    same(program)


def test_generator_of_ones_own():
    def program(torch):
        generator = torch.Generator().manual_seed(3)
        loader = torch.utils.data.DataLoader(Numbers(torch), 2, True, num_workers=2, generator=generator)
        return [list(loader), generator.get_state()[:200].tolist()]

    same(program)


def test_sampler_that_draws_at_once():
    def program(torch):
        class Eager(torch.utils.data.Sampler):
            def __iter__(self):
                return iter(torch.randperm(5).tolist())

        return list(torch.utils.data.DataLoader(range(5), None, sampler=Eager(), num_workers=1))

    same(program)


def test_persistent_workers():
    def program(torch):
        loader = torch.utils.data.DataLoader(
            Numbers(torch), 2, shuffle=True, num_workers=2, persistent_workers=True
        )
        return [list(loader), next(iter(loader)), list(loader)]

    same(program)
    loader = DataLoader(Slow(0), num_workers=2, persistent_workers=True)
    list(loader)
    before = [child.pid for child in multiprocessing.active_children()]
    list(loader)
    assert [child.pid for child in multiprocessing.active_children()] == before and len(before) == 2


def test_large_batches_arrive_whole_and_can_be_written():
    batches = list(DataLoader(Large(), batch_size=3, num_workers=2, prefetch_factor=1))
    for start, (images, labels) in zip(range(0, 12, 3), batches):
        assert labels.tolist() == [start, start + 1, start + 2]
        assert (images == labels.reshape(3, 1, 1)).all()
        images.add_(1)
    assert batches[0][0][0, 0, 0] == 1


def test_batches_that_grow():
    def grow(batch):
        return cg.full((batch[0] * 5000 + 1,), batch[0])

    sizes = list(range(10))
    for batch, size in zip(DataLoader(sizes, collate_fn=grow, num_workers=1), sizes):
        assert batch.shape == (size * 5000 + 1,) and (batch == size).all()


def test_kinds_of_tensors():
    tensors = [
        cg.ones(3, dtype=cg.bfloat16),
        cg.tensor([1 + 2j]),
        cg.ones(4, 3).T,
        cg.ones(0, 2),
        cg.tensor(3.0),
        cg.ones(2, requires_grad=True),
    ]
    arrived = list(DataLoader(tensors, batch_size=None, num_workers=1))
    for sent, came in zip(tensors, arrived):
        assert sent.dtype == came.dtype and sent.shape == came.shape and (sent == came).all()
    assert arrived[-1].requires_grad


def test_many_requests_ahead():
    loader = DataLoader(range(3000), batch_size=2, num_workers=2, prefetch_factor=700)
    assert [batch.tolist() for batch in loader] == [[i, i + 1] for i in range(0, 3000, 2)]
    order = list(range(60000)) * 3
    loader = DataLoader([[0] * 9000] * 60000, 30000, sampler=order, num_workers=1, collate_fn=len)
    assert list(loader) == [30000] * 6


def test_out_of_order():
    batches = DataLoader(Slow(0.5), batch_size=1, num_workers=2, in_order=False)
    numbers = [batch.item() for batch in batches]
    assert sorted(numbers) == list(range(8)) and numbers[0] != 0


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_start_methods(method):
    dataset = TensorDataset(cg.arange(8), cg.ones(8, 3000))
    loader = DataLoader(dataset, 4, num_workers=1, multiprocessing_context=method)
    assert [labels.tolist() for labels, _ in loader] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    if method == "forkserver":
        stop_helpers()


def stop_helpers():
    """The fork server stays for later processes; it is Python's own and ends when its line is closed."""
    from multiprocessing import forkserver, resource_tracker

    forkserver._forkserver._stop()
    resource_tracker._resource_tracker._stop()


def test_nested_loaders():
    inner = DataLoader(range(4), 2, num_workers=1)
    seen = []
    for outer in DataLoader(range(3), num_workers=2):
        seen.append((outer.item(), [batch.tolist() for batch in inner]))
    assert seen == [(k, [[0, 1], [2, 3]]) for k in range(3)]


# Streams ---------------------------------------------------------------------------------------------------


def sharded(torch):
    class Sharded(torch.utils.data.IterableDataset):
        def __iter__(self):
            me = torch.utils.data.get_worker_info()
            return iter(range(me.id * 100, me.id * 100 + 3 + 5 * me.id))

    return Sharded()


@pytest.mark.parametrize("options", [{}, {"batch_size": 2}, {"batch_size": 2, "drop_last": True}], ids=str)
def test_sharded_streams(options):
    def program(torch):
        loader = torch.utils.data.DataLoader(
            sharded(torch), num_workers=2, persistent_workers=True, **options
        )
        return [list(loader), list(loader)]

    same(program)


def test_worker_info():
    def program(torch):
        class Info(torch.utils.data.Dataset):
            def __len__(self):
                return 4

            def __getitem__(self, index):
                me = torch.utils.data.get_worker_info()
                return [me.id, me.num_workers, me.seed, torch.initial_seed(), me.dataset is self]

        return [list(torch.utils.data.DataLoader(Info(), None, num_workers=2))]

    same(program)
    assert get_worker_info() is None


def test_worker_init_fn():
    def program(torch):
        class Mine(torch.utils.data.Dataset):
            mark = None

            def __len__(self):
                return 4

            def __getitem__(self, index):
                return self.mark

        def prepare(worker_id):
            torch.utils.data.get_worker_info().dataset.mark = (worker_id, torch.rand(1).item())

        return list(torch.utils.data.DataLoader(Mine(), num_workers=2, worker_init_fn=prepare))

    same(program)


# Failures --------------------------------------------------------------------------------------------------


class TwoArguments(Exception):
    def __init__(self, a, b):
        super().__init__(a, b)


@pytest.mark.parametrize("exception", [ValueError("bad"), KeyError("k"), TwoArguments(1, 2), IndexError("i")])
def test_exceptions_on_their_way(exception):
    where = "in DataLoader worker process 1"
    try:
        raise exception
    except Exception as failure:
        theirs, ours = ExceptionWrapper(where=where), Failure(failure, where)
    with pytest.raises(Exception) as expected:
        theirs.reraise()
    with pytest.raises(Exception) as caught:
        ours.raise_again()
    assert caught.type is expected.type and str(caught.value) == str(expected.value)


@pytest.mark.parametrize("exception", [ValueError("bad"), KeyError("k")])
def test_workers_end_with_the_exception(exception):
    gc.disable()
    try:
        with pytest.raises(type(exception)):
            list(DataLoader(Failing(exception), num_workers=2))
        assert not multiprocessing.active_children()
    finally:
        gc.enable()


def test_an_exception_shows_the_workers_traceback():
    batches = iter(DataLoader(Failing(KeyError("k")), num_workers=2))
    assert [next(batches).item(), next(batches).item()] == [0, 1]
    with pytest.raises(KeyError) as caught:
        next(batches)
    text = str(caught.value)
    assert text.startswith("Caught KeyError in DataLoader worker process 0.\nOriginal Traceback")
    assert "in __getitem__\n    raise self.exception" in text and text.endswith("KeyError: 'k'\n")
    assert [batch.item() for batch in batches] == [3, 4, 5]


def test_exceptions_that_cannot_travel():
    class Local(Exception):
        pass

    with pytest.raises(RuntimeError, match="Caught Local in DataLoader worker process 0"):
        list(DataLoader(Failing(Local()), num_workers=1))
    with pytest.raises((AttributeError, TypeError), match=r"(?s)Caught .*pickle"):
        list(DataLoader(range(3), num_workers=1, collate_fn=lambda batch: lambda: batch))


class Unreadable:
    """Can be sent, but not received."""

    def __reduce__(self):
        return divide, (1, 0)


def divide(a, b):
    return a // b


def test_a_batch_that_cannot_be_received():
    batches = iter(DataLoader([1, 2, 3], num_workers=1, collate_fn=lambda b: Unreadable() if b == [2] else b))
    assert next(batches) == [1]
    with pytest.raises(ZeroDivisionError):
        next(batches)
    assert list(batches) == [[3]]


def test_exception_in_worker_init_fn():
    def prepare(worker_id):
        raise ZeroDivisionError("early")

    with pytest.raises(ZeroDivisionError, match="early"):
        list(DataLoader(range(4), num_workers=1, worker_init_fn=prepare))


def test_timeout():
    with pytest.raises(RuntimeError, match=r"DataLoader timed out after 0\.2 seconds"):
        list(DataLoader(Slow(1.0), num_workers=1, timeout=0.2))
    assert len(list(DataLoader(Slow(0.05), num_workers=1, timeout=20))) == 8


@pytest.mark.parametrize("how, words", [(kill_myself, "SIGKILL"), (leave, "exit code +3")])
@pytest.mark.parametrize("in_order", [True, False])
def test_a_dead_worker_is_noticed(how, words, in_order):
    with pytest.raises(RuntimeError, match=rf"worker \(pid\(s\) \d+\) exited unexpectedly\n.* {words}"):
        list(DataLoader(Dying(how), num_workers=2, in_order=in_order))


def test_arguments_that_cannot_be_sent():
    with pytest.warns(UserWarning, match="pickle error"), pytest.raises((AttributeError, TypeError)):
        list(DataLoader(range(3), num_workers=1, multiprocessing_context="spawn", collate_fn=lambda b: b))


# The end ---------------------------------------------------------------------------------------------------


def test_early_break():
    start = time.monotonic()
    for batch in DataLoader(range(1000), num_workers=2):
        if batch.item() == 3:
            break
    assert time.monotonic() - start < 5


def test_workers_end_with_the_last_batch():
    batches = iter(DataLoader(range(4), num_workers=2))
    assert len(list(batches)) == 4
    assert not multiprocessing.active_children()
    with pytest.raises(StopIteration):
        next(batches)


def test_open_files_do_not_grow():
    loader = DataLoader(Large(), batch_size=3, num_workers=2)
    list(loader)
    before = len(os.listdir("/proc/self/fd"))
    kept = [list(loader) for _ in range(3)]
    assert len(kept) == 3 and len(os.listdir("/proc/self/fd")) <= before


def test_a_worker_that_does_not_listen_is_ended(monkeypatch):
    monkeypatch.setattr("cleargrad.utils.data.iterators.SECONDS_TO_FINISH", 0.2)
    batches = iter(DataLoader(Slow(60), num_workers=2))
    start = time.monotonic()
    del batches
    assert time.monotonic() - start < 10


SCRIPT = """
import os, signal, sys, time
import cleargrad
from cleargrad.utils.data import DataLoader
signal.signal(signal.SIGINT, signal.default_int_handler)  # tests may be run where it is ignored
BEGIN
class Endless(cleargrad.utils.data.Dataset):
    def __len__(self): return 10**9
    def __getitem__(self, index): time.sleep(0.01); return index
batches = iter(DataLoader(Endless(), num_workers=2, persistent_workers=PERSISTENT))
for _ in range(READ): next(batches)
print(*[worker.process.pid for worker in batches._workers], flush=True)
END
"""


def start_script(end, persistent=False, begin="", read=2):
    """A script with two workers in a process group of its own; returns it and the workers' ids.

    When it has read two batches, both workers are at work.
    """
    code = SCRIPT.replace("PERSISTENT", str(persistent)).replace("READ", str(read))
    code = code.replace("BEGIN", begin).replace("END", end)
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    return process, [int(word) for word in process.stdout.readline().split()]


def all_gone(ids, within):
    end = time.monotonic() + within
    while time.monotonic() < end:
        if not any(is_running(pid) for pid in ids):
            return True
        time.sleep(0.05)
    return False


def is_running(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_ctrl_c():
    process, ids = start_script("for batch in batches: pass")
    assert len(ids) == 2
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=20)
    assert errors.count("Traceback") == 1 and errors.rstrip().endswith("KeyboardInterrupt")
    assert all_gone(ids, 5)


LATE = """
import cleargrad.utils.data.worker as worker
now = worker.seed_all
worker.seed_all = lambda *arguments: (time.sleep(1), now(*arguments))
"""


@pytest.mark.parametrize(("begin", "read"), [("", 2), (LATE, 0)], ids=["at work", "not yet begun"])
def test_killed_main_process_leaves_no_orphans(begin, read):
    process, ids = start_script("time.sleep(60)", begin=begin, read=read)
    process.kill()
    process.communicate(timeout=20)  # workers hold the script's output open
    assert len(ids) == 2 and all_gone(ids, 5)


@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize(
    "end", ["", "sys.exit(0)", "loader = None; x = [batches]; x.append(x); del batches, x"]
)
def test_quiet_exit_in_the_middle(end, persistent):
    process, ids = start_script(end, persistent)
    _, errors = process.communicate(timeout=20)
    assert process.returncode == 0 and errors == ""
    assert len(ids) == 2 and all_gone(ids, 5)


def test_a_fork_of_the_users_own_leaves_the_workers_alone():
    batches = iter(DataLoader(range(6), num_workers=2))
    next(batches)
    child = multiprocessing.get_context("fork").Process(target=drop, args=(batches,))
    child.start()
    child.join()
    assert child.exitcode == 0 and len(list(batches)) == 5


def drop(batches):
    batches._shut_down()
