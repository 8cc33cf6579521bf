"""Shared by all tests: PyTorch, if installed, keeps to one thread, so that parallel workers do not fight.

Graphs that are compiled are verified after every pass, also in processes that tests start (compile/verify.py).
"""

import contextlib
import importlib.util
import os

import pytest

os.environ["CLEARGRAD_VERIFY"] = "1"

if importlib.util.find_spec("torch") is not None:
    import torch

    torch.set_num_threads(1)


@pytest.fixture(autouse=os.environ.get("CLEARGRAD_TEST_WAITING") == "1")
def calls_wait(request, monkeypatch):
    """With CLEARGRAD_TEST_WAITING=1 every test runs with calls that wait, unless it is marked as `eager`."""
    from cleargrad.compile.script import waiting

    if request.node.get_closest_marker("eager"):
        yield
        return
    monkeypatch.setattr(pytest, "raises", raises_when_seen)
    with waiting():
        yield


raises = pytest.raises


@contextlib.contextmanager
def raises_when_seen(*expected, **options):
    """`pytest.raises` for calls that wait: errors by value come when somebody looks, at the end of the block."""
    from cleargrad.core.mode import settle

    with raises(*expected, **options) as info:
        yield info
        settle()
