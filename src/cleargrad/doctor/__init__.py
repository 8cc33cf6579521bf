"""cleargrad.doctor: finds mistakes in the life of gradients, in programs on PyTorch and on cleargrad.

    import cleargrad.doctor as doctor
    with doctor.watch(model, optimizer) as watched:
        ...
    print(watched.findings)

Nothing of cleargrad's tensor library is used here. Read next: events.py.
"""

from __future__ import annotations

from typing import Any

from cleargrad.doctor.findings import Finding, GradientError
from cleargrad.doctor.session import Session

__all__ = ["Finding", "GradientError", "Session", "attach", "detach", "report", "watch"]

current: Session | None = None  # what `attach` began


def watch(*objects: Any, strict: bool = False, warn: bool = True, **options: Any) -> Session:
    """A context manager that watches training; give it the models and optimizers that exist already."""
    return Session(strict=strict, warn=warn, search=True, **options).attach(*objects)


def attach(*objects: Any, warn: bool = True, **options: Any) -> Session:
    """Watches from here on, until `detach`."""
    global current
    detach()
    current = Session(warn=warn, search=True, **options).attach(*objects)
    return current


def detach() -> Session | None:
    """Ends what `attach` began."""
    if current is not None:
        current.detach()
    return current


def report() -> dict[str, Any]:
    """What `attach` has found so far, as plain data."""
    if current is None:
        raise RuntimeError("doctor.report: nothing was watched; call doctor.attach() first")
    return current.report()
