"""torch.multiprocessing.spawn: the same function in several new processes; one failure ends them all.

Read next: distributed/__init__.py.
"""

from __future__ import annotations

import multiprocessing
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from multiprocessing import connection
from typing import Any

LONGEST_REPORT = 30_000  # characters; a pipe holds them even when nobody reads yet


class ProcessException(Exception):
    """A process that spawn started did not end well."""

    def __init__(self, msg: str, error_index: int, pid: int):
        super().__init__(msg)
        self.msg = msg
        self.error_index = error_index
        self.pid = pid

    def __reduce__(self) -> tuple:
        return type(self), (self.msg, self.error_index, self.pid)


class ProcessRaisedException(ProcessException):
    """The function raised an exception; the message is its traceback."""


class ProcessExitedException(ProcessException):
    """The process ended by a signal or an exit code."""

    def __init__(
        self, msg: str, error_index: int, error_pid: int, exit_code: int, signal_name: str | None = None
    ):
        super().__init__(msg, error_index, error_pid)
        self.exit_code = exit_code
        self.signal_name = signal_name

    def __reduce__(self) -> tuple:
        return type(self), (self.msg, self.error_index, self.pid, self.exit_code, self.signal_name)


def work(fn: Callable, number: int, args: tuple, report: Any) -> None:
    """The life of a process: the function, or its traceback sent home."""
    try:
        fn(number, *args)
    except KeyboardInterrupt:
        pass  # the process that started this one is interrupted as well
    except Exception:
        report.send(traceback.format_exc()[-LONGEST_REPORT:])
        sys.exit(1)


class ProcessContext:
    """Processes that run; `join` waits for them."""

    def __init__(self, processes: list, reports: list):
        self.processes = processes
        self.reports = reports
        self.sentinels = {process.sentinel: number for number, process in enumerate(processes)}

    def pids(self) -> list[int]:
        return [int(process.pid) for process in self.processes]

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """Waits until one more process has ended: True when all have, an exception when one failed."""
        if not self.sentinels:
            return True
        failed = None
        for sentinel in connection.wait(self.sentinels.keys(), timeout):
            number = self.sentinels.pop(sentinel)  # type: ignore[call-overload]
            if self.processes[number].exitcode is None:
                self.processes[number].join()
            if self.processes[number].exitcode != 0:
                failed = number
                break
        if failed is None:
            return not self.sentinels
        self.stop(grace_period)
        raise self.failure(failed)

    def stop(self, grace_period: float | None) -> None:
        """Ends every process that still runs."""
        alive = [process for process in self.processes if process.is_alive()]
        for process in alive:
            process.terminate()
        end = time.monotonic() + (30 if grace_period is None else grace_period)
        for process in alive:
            process.join(max(0, end - time.monotonic()))
            if process.is_alive():
                process.kill()
                process.join()

    def report_of(self, number: int) -> str:
        """The traceback that a process has sent, or nothing."""
        try:
            return self.reports[number].recv()
        except EOFError:
            return ""

    def failure(self, number: int) -> ProcessException:
        process = self.processes[number]
        text = self.report_of(number)
        if text:
            message = f"\n\n-- Process {number} terminated with the following error:\n{text}"
            return ProcessRaisedException(message, number, process.pid)
        code = process.exitcode
        if code < 0:
            name = signal.Signals(-code).name
            message = f"process {number} terminated with signal {name}"
            return ProcessExitedException(message, number, process.pid, code, name)
        message = f"process {number} terminated with exit code {code}"
        return ProcessExitedException(message, number, process.pid, code)


class SpawnContext(ProcessContext):
    """The old name of ProcessContext."""


def start_processes(
    fn: Callable,
    args: tuple = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """Runs fn(0, *args), fn(1, *args), ... each in a process of its own."""
    context: Any = multiprocessing.get_context(start_method)
    processes, reports = [], []
    for number in range(nprocs):
        ours, theirs = context.Pipe(duplex=False)
        process = context.Process(target=work, args=(fn, number, args, theirs), daemon=daemon)
        process.start()
        theirs.close()
        processes.append(process)
        reports.append(ours)
    running = SpawnContext(processes, reports)
    if not join:
        return running
    while not running.join():
        pass
    return None


def spawn(
    fn: Callable,
    args: tuple = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """start_processes with new interpreters."""
    if start_method != "spawn":
        warnings.warn(
            f"This method only supports start_method=spawn (got: {start_method}). To use a different "
            "start_method use: torch.multiprocessing.start_processes(...)",
            FutureWarning,
            stacklevel=2,
        )
    return start_processes(fn, args, nprocs, join, daemon, start_method="spawn")
