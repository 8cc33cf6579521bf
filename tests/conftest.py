"""Shared by all tests: PyTorch, if installed, keeps to one thread, so that parallel workers do not fight.

Graphs that are compiled are verified after every pass, also in processes that tests start (graph/verify.py). What
is wrong with one is an error of the test that compiled it.
"""

import importlib.util
import os
import sys

import pytest

os.environ["CLEARGRAD_VERIFY"] = "1"

if importlib.util.find_spec("torch") is not None:
    import torch

    torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def programs_made_beside():
    """What went wrong with programs that another thread made is raised here."""
    yield
    beside = sys.modules.get("cleargrad.compile.beside")
    if beside is not None:
        beside.wait()


@pytest.fixture(autouse=os.environ.get("CLEARGRAD_TEST_RECALL") == "1")
def calls_are_recalled(monkeypatch):
    """With CLEARGRAD_TEST_RECALL=1 every public function asks for known calls, and what comes twice is studied."""
    from cleargrad.devices.cpu.programs import recall

    monkeypatch.setattr(recall, "BETWEEN", 1)
    recall.install_all()
    yield
    recall.restore_all()


@pytest.fixture
def nothing_is_recalled(monkeypatch):
    """No call is studied, for tests that count what a call costs."""
    from cleargrad.devices.cpu.programs import recall

    recall.restore_all()
    monkeypatch.setattr(recall, "notice", lambda frame: None)


@pytest.fixture(autouse=os.environ.get("CLEARGRAD_TEST_WAITING") == "1")
def calls_wait(request, monkeypatch):
    """With CLEARGRAD_TEST_WAITING=1 every test runs with calls that wait, unless it is marked as `eager`."""
    from cleargrad.compile.script import waiting

    if request.node.get_closest_marker("eager"):
        yield
        return
    monkeypatch.setattr(pytest, "raises", RaisesWhenSeen)
    with waiting():
        yield


raises = pytest.raises


class RaisesWhenSeen:
    """`pytest.raises` for calls that wait: errors by value come when somebody looks, at the end of the block."""

    def __init__(self, *expected, **options):
        self.block = raises(*expected, **options)

    def __enter__(self):
        return self.block.__enter__()

    def __exit__(self, kind, value, traceback):
        from cleargrad.core.mode import settle

        if kind is None:
            try:
                settle()
            except BaseException as late:
                return self.block.__exit__(type(late), late, late.__traceback__)
        return self.block.__exit__(kind, value, traceback)
