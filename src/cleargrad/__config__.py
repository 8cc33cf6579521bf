"""torch.__config__: what this build is made of, as text. Read next: threads.py."""

from __future__ import annotations

import platform
import sys

import numpy as np

from cleargrad import threads


def show() -> str:
    """One line per part."""
    lines = [f"cleargrad {sys.modules['cleargrad'].__version__} built with:"]
    lines.append(f"  - Python {platform.python_version()}")
    lines.append(f"  - NumPy {np.__version__}")
    lines += [f"  - {_library(found)}" for found in threads.controller().info()]
    return "\n".join(lines) + "\n"


def parallel_info() -> str:
    """How many threads compute."""
    return (
        "\n".join(
            [
                "ATen/Parallel:",
                f"\tat::get_num_threads() : {threads.get_num_threads()}",
                f"\tat::get_num_interop_threads() : {threads.get_num_interop_threads()}",
            ]
        )
        + "\n"
    )


def _library(found: dict) -> str:
    return f"{found['internal_api']} {found['version']} ({found.get('architecture', 'unknown')})"
