"""Runs the scripts of the corpus one after the other on one engine, each under a watch of its own.

    python -m tests.doctor.run_corpus ENGINE SCRIPT...

prints a JSON object: per script its findings, and how it ended. One process for all, so that PyTorch is
imported once.
"""

from __future__ import annotations

import contextlib
import gc
import io
import json
import sys
import traceback
import warnings
from types import ModuleType
from typing import Any

from cleargrad.doctor.session import Session


def run_script(path: str, engine: str) -> dict[str, Any]:
    """Runs one script; the answer is plain data."""
    with open(path, encoding="utf-8") as file:
        code = compile(file.read(), path, "exec")
    main = ModuleType("__main__")
    main.__file__ = path
    session = Session(engine=engine, search=False)
    sys.modules["__main__"] = main
    error = None
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        session.attach()
        try:
            exec(code, vars(main))
        except Exception as reason:
            error = reason
        session.detach(failed=error is not None, error=error)
    answer = {
        "findings": [finding.as_dict() for finding in session.findings],
        "error": None if error is None else "".join(traceback.format_exception(error)),
        "failure": None if session.failure is None else "".join(traceback.format_exception(session.failure)),
        "steps": session.ledger.steps,
    }
    error = None
    vars(main).clear()
    gc.collect()
    return answer


def main(engine: str, paths: list[str]) -> None:
    if engine == "cleargrad":
        from cleargrad import compat

        compat.serve()
    import torch

    torch.set_num_threads(1)
    gc.freeze()  # the libraries stay; only what scripts leave behind is collected between them
    print(json.dumps({path: run_script(path, engine) for path in paths}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
