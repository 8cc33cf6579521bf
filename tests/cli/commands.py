"""Starts `cleargrad` as a shell would, with its output piped or in a terminal."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from pathlib import Path

COMMAND = [sys.executable, "-m", "cleargrad"]
NAMES = ("demo", "run", "doctor", "explain", "bench", "info", "completion")


def start(*words: str, folder: Path | None = None, **variables: str) -> subprocess.CompletedProcess[str]:
    """Runs a command with its output piped."""
    environment = {**os.environ, **variables}
    return subprocess.run(
        [*COMMAND, *words], cwd=folder, env=environment, capture_output=True, text=True, timeout=280
    )


def start_in_terminal(*words: str, folder: Path, columns: int = 80, **variables: str) -> tuple[int, str]:
    """Runs a command in a terminal; its exit status, and what it showed with all escape codes."""
    process, terminal = pty.fork()
    if process == 0:
        fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        os.chdir(folder)
        os.execve(COMMAND[0], [*COMMAND, *words], {**os.environ, "TERM": "xterm-256color", **variables})
    shown = b""
    while True:
        try:
            part = os.read(terminal, 1 << 16)
        except OSError:  # the other end has closed
            break
        if not part:
            break
        shown += part
    os.close(terminal)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), shown.decode()
