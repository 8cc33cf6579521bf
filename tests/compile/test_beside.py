"""Programs made beside the loop: what may happen meanwhile, and how much the loop has to wait."""

import gc
import os
import subprocess
import sys
import threading
import time
import weakref

import pytest

import cleargrad as torch
from cleargrad import nn
from cleargrad.compile import beside, ending
from cleargrad.compile.traces import Tree
from cleargrad.core import pace
from cleargrad.devices.cpu.llvm import jit


@pytest.fixture
def held(monkeypatch):
    """Nothing is recorded until this is set."""
    go = threading.Event()
    record = ending.Ending.record_steps

    def later(*arguments):
        go.wait(30)
        return record(*arguments)

    monkeypatch.setattr(ending.Ending, "record_steps", later)
    yield go
    go.set()


def train(steps, change=None, optimizer_class=torch.optim.SGD, **options):
    torch.manual_seed(0)
    model = nn.Linear(4, 3)
    optimizer = optimizer_class(model.parameters(), lr=0.1, momentum=0.9, **options)
    for number in range(steps):
        optimizer.zero_grad()
        model(torch.ones(2, 4)).square().sum().backward()
        optimizer.step()
        if change is not None:
            change(number, optimizer)
    return model, optimizer


def test_recording_holds_up_nobody(held):
    tree = Tree()
    with torch.waiting(tree=tree):
        _kept = train(6)
    assert tree.endings and all(each.program is None and each.failure is None for each in tree.endings)
    held.set()
    beside.wait()
    assert any(each.program is not None for each in tree.endings)


def test_options_are_those_of_the_recorded_step(held):
    """Which options are fixed is part of a trace: what they are later must not get into its program."""

    def change(number, optimizer):
        if number in (5, 11):  # the first program is recorded while the rule is another one
            optimizer.param_groups[0]["nesterov"] = number == 5
        if number == 8:
            held.set()
            beside.wait()

    with torch.waiting():
        found, _ = train(18, change)
    with torch.eager():
        want, _ = train(18, lambda n, o: change(n, o) if n in (5, 11) else None)
    assert all(torch.equal(one, other) for one, other in zip(found.parameters(), want.parameters()))


def test_a_default_dtype_that_changes_meanwhile(held):
    tree = Tree()
    with torch.waiting(tree=tree):
        _kept = train(4)
        before = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64)
        torch.set_default_dtype(before)
        held.set()
        beside.wait()
        assert tree.endings and all(each.gone for each in tree.endings)


def test_a_model_that_is_gone_meanwhile_leaves_no_memory(held):
    with torch.waiting():
        model, optimizer = train(4)
        memory = weakref.ref(model.weight._data)
        del model, optimizer
        held.set()
        beside.wait()
        gc.collect()
        torch.ones(2) + 1
        assert memory() is None


def test_a_rule_of_the_users_is_recorded_at_once():
    class Own(torch.optim.SGD):
        seen = []

        def _update(self, *arguments):
            self.seen.append(threading.current_thread())
            super()._update(*arguments)

    with torch.waiting():
        train(5, optimizer_class=Own)
        beside.wait()
    assert set(Own.seen) == {threading.current_thread()}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_makes_programs_of_its_own(held):
    tree = Tree()
    with torch.waiting(tree=tree):
        kept = [train(6)]
        child = os.fork()
        if not child:
            try:
                held.set()
                with torch.waiting(tree=tree):
                    kept.append(train(6))
                beside.wait()
                fine = any(each.program is not None for each in tree.endings)
                os._exit(0 if fine else 1)
            except BaseException:
                os._exit(2)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 0


def test_a_kernel_that_is_compiled_holds_up_no_other(monkeypatch):
    """The lock is free between the kernels of a list."""
    free = []

    def give_way():
        thread = threading.Thread(
            target=lambda: free.append(jit._lock.acquire(timeout=5) and jit._lock.release())
        )
        thread.start()
        thread.join()

    monkeypatch.setattr(jit, "give_way", give_way)
    text = "define void @kernel() {{\n  ; {}\n  ret void\n}}"
    jit.addresses([jit.Kernel(text.format(time.time_ns() + k)) for k in range(2)])
    assert free == [None, None]


def test_who_works_beside_rests():
    rests = []

    def work():
        begin = time.perf_counter()
        for _ in range(20):
            until = time.thread_time() + 2 * pace.PIECE
            while time.thread_time() < until:
                pass
            pace.give_way()
        rests.append(time.perf_counter() - begin)

    beside.beside(work, lambda: None)
    while beside._thread:
        time.sleep(0.01)
    assert rests[0] > 20 * 2 * pace.PIECE * (1 + pace.REST)
    beside.wait()


def test_a_script_that_ends_does_not_wait():
    script = """
import time
from cleargrad.compile import beside
from cleargrad.core.pace import give_way
def work():
    while True:
        sum(range(1000))
        give_way()
beside.beside(work, lambda: None)
time.sleep(0.2)
print("ends")
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "ends\n", "")
