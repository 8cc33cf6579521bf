"""Every error message of cleargrad is laid out here, so that all of them read alike.

`error` builds an exception of the type PyTorch would raise: the op and the rule in words, the facts one per
line, a fix when there is one, and the user's line. Read next: core/dtype.py.
"""

from __future__ import annotations

import os
import sys
import threading
from types import CodeType, FrameType, TracebackType

PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep

# A place in the user's program, cheap to take (no line is looked up) and to keep (no frame stays alive).
Place = tuple[CodeType, int]


class LinAlgError(RuntimeError):
    """A matrix that has no inverse, no Cholesky factor, or whose iteration did not converge."""


class OutOfMemoryError(RuntimeError):
    """A device has no memory left; programs catch it under PyTorch's name."""

    shortage: object = None  # what is known about it (core/shortage.py)


class AcceleratorError(RuntimeError):
    """A device reports an error; programs catch it under PyTorch's name."""


def error(kind: type[Exception], op: str, rule: str, *, fix: str | None = None, **facts: object) -> Exception:
    """The exception `kind` with our layout; facts that are tensors print as shape, dtype and device."""
    rows = {name: describe(fact) for name, fact in facts.items()}
    if fix is not None:
        rows["fix"] = fix
    place = user_place()
    if place is not None:
        rows["at"] = line_of(place)
    return kind(laid_out(op, rule, rows))


def laid_out(op: str, rule: str, rows: dict[str, str]) -> str:
    """The rule in words, and under it the facts, one per line; the command line's errors look the same."""
    width = max((len(name) for name in rows), default=0)
    return "\n".join([f"{op}: {rule}"] + [f"  {name:<{width}}  {text}" for name, text in rows.items()])


def describe(fact: object) -> str:
    """A fact as one line: tensors by what can be wrong with them, everything else as Python writes it."""
    shape = getattr(fact, "shape", None)
    dtype = getattr(fact, "dtype", None)
    if shape is None or dtype is None:
        return fact if isinstance(fact, str) else repr(fact)
    name = str(dtype).rpartition(".")[2]
    return f"{tuple(shape)} {name} {getattr(fact, 'device', 'cpu')}"


_own: dict[int, CodeType] = {}  # code that is known to be cleargrad's, by its id, which is found quickly


def user_frame(frame: FrameType | None) -> FrameType | None:
    """The nearest frame that is not cleargrad's own."""
    while frame is not None:
        code = frame.f_code
        if id(code) not in _own:
            if not code.co_filename.startswith(PACKAGE):
                return frame
            _own[id(code)] = code
        frame = frame.f_back
    return None


class Standing(threading.local):
    """Where the call was made that the current thread computes only now."""

    place: Place | None = None


standing = Standing()


class standing_at:
    """Errors within name this place."""

    def __init__(self, place: Place | None) -> None:
        self.here = place

    def __enter__(self) -> None:
        self.before, standing.place = standing.place, self.here

    def __exit__(self, *exception: object) -> None:
        standing.place = self.before


def user_place() -> Place | None:
    """Where the user's program is now; None when only cleargrad is on the stack."""
    if standing.place is not None:
        return standing.place
    frame = user_frame(sys._getframe(1))
    return None if frame is None else (frame.f_code, frame.f_lasti)


def place_in(traceback: TracebackType | None) -> Place | None:
    """The user's line that an error came through, the innermost one."""
    found = None
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if not code.co_filename.startswith(PACKAGE):
            found = (code, traceback.tb_lasti)
        traceback = traceback.tb_next
    return found


def known_as(file: str) -> str:
    """A file as its reader knows it: a notebook's cell has a number, and a file name that nobody has seen."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    number = None if shell is None else getattr(shell.compile, "_filename_map", {}).get(file)
    return file if number is None else f"In[{number}]"


def line_of(place: Place) -> str:
    """A place as `file:line in function`, with the source line when it can be read."""
    code, instruction = place
    number = _line_number(code, instruction)
    import linecache

    source = linecache.getline(code.co_filename, number).strip()
    text = f"{known_as(code.co_filename)}:{number} in {code.co_name}"
    return f"{text}: {source}" if source else text


def _line_number(code: CodeType, instruction: int) -> int:
    for start, stop, number in code.co_lines():
        if start <= instruction < stop and number is not None:
            return number
    return code.co_firstlineno
