"""Programs that stop because they use a gradient that is None: a note under the error says who cleared it.

None has no place to hang a better message on, so that the line which failed is looked at afterwards.
Read next: cli/run.py.
"""

from __future__ import annotations

import linecache
import re

from cleargrad.core.watch import watch
from cleargrad.errors import PACKAGE, line_of


def explain_none_gradient(error: BaseException) -> None:
    """Adds a note to an error about None on a line that reads `.grad`."""
    if not isinstance(error, (AttributeError, TypeError)) or "NoneType" not in str(error):
        return
    line = failing_line(error)
    if not re.search(r"\.grad\b", line):
        return
    if watch.cleared is None:
        why = "no backward() has filled it: call backward() first, or test for None"
    else:
        why = (
            f"zero_grad() sets gradients to None, last at {line_of(watch.cleared)}\n"
            "  fix  read .grad between backward() and zero_grad(), or call zero_grad(set_to_none=False)"
        )
    error.add_note(f"cleargrad: a .grad that is read here is None: {why}")


def failing_line(error: BaseException) -> str:
    """The innermost line of the user's that the error came through."""
    trace, found = error.__traceback__, ""
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if not file.startswith(PACKAGE):
            found = linecache.getline(file, trace.tb_lineno)
        trace = trace.tb_next
    return found
