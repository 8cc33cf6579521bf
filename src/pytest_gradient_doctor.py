"""`pytest --gradient-doctor`: cleargrad's doctor watches every test; a mistake in the life of gradients fails it.

    @pytest.mark.gradient_doctor(allow=["gradient-reused"])   # known in this test
    @pytest.mark.gradient_doctor(off=True)                    # not watched

Apart from the package, because pytest imports every installed plugin: without the option nothing of cleargrad is
loaded. Read next: cleargrad/doctor/session.py.
"""

from __future__ import annotations

import sys
from collections.abc import Generator
from typing import Any

import pytest

USES = 'gradient_doctor(allow=[...], off=False): rules that --gradient-doctor leaves out for a test, or "off=True"'


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("gradient doctor")
    group.addoption(
        "--gradient-doctor",
        action="store_true",
        help="fail tests whose training loops make mistakes with gradients (PyTorch or cleargrad)",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", USES)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    marker = item.get_closest_marker("gradient_doctor")
    options: dict[str, Any] = {} if marker is None else dict(marker.kwargs)
    if not item.config.getoption("gradient_doctor") or options.pop("off", False):
        return (yield)
    watch = Watch(options.pop("allow", ()))
    try:
        result = yield
    except BaseException:
        watch.end(failed=True)
        report = watch.report()
        if report:
            item.add_report_section("call", "gradient doctor", report)
        raise
    watch.end(failed=False)
    report = watch.report()
    if report:
        pytest.fail(report, pytrace=False)
    return result


class Watch:
    """A session for each library that is there, from the beginning of a test to its end."""

    def __init__(self, allowed: Any) -> None:
        from cleargrad.cli.doctor import TorchFinder
        from cleargrad.doctor.torch_adapter import real_torch

        self.allowed = (allowed,) if isinstance(allowed, str) else tuple(allowed)
        self.sessions: list[Any] = []
        if "cleargrad.optim" in sys.modules:
            self.begin("cleargrad")
        if real_torch() is not None:
            self.begin("torch")
        self.finder = TorchFinder(lambda: self.begin("torch"))
        if "torch" not in sys.modules:
            sys.meta_path.insert(0, self.finder)

    def begin(self, engine: str) -> None:
        from cleargrad.doctor import Session

        self.sessions.append(Session(engine=engine, ignore=self.allowed, search=True).attach())

    def end(self, failed: bool) -> None:
        if self.finder in sys.meta_path:
            sys.meta_path.remove(self.finder)
        for session in reversed(self.sessions):
            session.detach(failed)

    def report(self) -> str:
        """What is wrong, or nothing."""
        from cleargrad.doctor.reports import write

        return "\n\n".join(write(session, "text") for session in self.sessions if session.findings.problems)
