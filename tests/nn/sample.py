"""A module with all kinds of parts, in either library, and the words of what a call raises."""

from __future__ import annotations

from typing import Any


def net(T: Any) -> Any:
    """Two layers, a norm with buffers, a shared module, an absent one, a buffer that is not saved."""

    class Net(T.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = T.nn.Linear(3, 4)
            self.norm = T.nn.BatchNorm1d(4)
            self.layers = T.nn.Sequential(T.nn.ReLU(), T.nn.Linear(4, 4))
            self.again = self.first
            self.scale = T.nn.Parameter(T.ones(4))
            self.absent = None
            self.register_parameter("no_parameter", None)
            self.register_module("no_module", None)
            self.register_buffer("kept", T.arange(3.0))
            self.register_buffer("lost", T.zeros(2), persistent=False)
            self.register_buffer("no_buffer", None)

        def forward(self, x: Any) -> Any:
            return self.layers(self.norm(self.first(x))) * self.scale

    T.manual_seed(0)
    return Net()


def text(call: Any) -> Any:
    """The type of what a call raises and a part of its words that programs look for."""
    try:
        return call()
    except Exception as exception:
        return type(exception).__name__, str(exception)
