"""torch.utils.collect_env: what a report of a problem should say about the machine, as text.

Read next: cli/info.py.
"""

from __future__ import annotations

import os
import platform

from cleargrad import __config__


def get_pretty_env_info() -> str:
    """Versions and machine, one per line."""
    rows = {
        "OS": platform.platform(),
        "Python version": platform.python_version(),
        "Is CUDA available": False,
        "CPU": platform.processor() or platform.machine(),
        "CPU cores": os.cpu_count(),
    }
    lines = [f"{name}: {value}" for name, value in rows.items()]
    return __config__.show() + "\n".join(lines)


def main() -> None:
    print(get_pretty_env_info())


if __name__ == "__main__":
    main()
