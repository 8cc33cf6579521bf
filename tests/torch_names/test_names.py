"""The modules of torch_names are found as modules of cleargrad, once, and nothing that computes builds on them."""

from __future__ import annotations

import importlib
import pickle
import re
import subprocess
import sys
from pathlib import Path

import pytest

import cleargrad

PACKAGE = Path(cleargrad.__file__).parent
ROOM = PACKAGE / "torch_names"
NAMES = sorted(
    path.stem
    for path in ROOM.iterdir()
    if (path.suffix == ".py" and path.stem != "__init__") or (path / "__init__.py").exists()
)
ABOVE = ("__init__.py", "compat.py")  # they hand the names on


def test_the_room_is_not_empty() -> None:
    assert {"_C", "backends", "fx", "jit", "version"} <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_module_has_one_name(name: str) -> None:
    module = importlib.import_module(f"cleargrad.{name}")
    assert module.__name__ == f"cleargrad.{name}"
    assert Path(module.__file__).is_relative_to(ROOM)
    assert getattr(cleargrad, name, module) is module
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module(f"cleargrad.torch_names.{name}")


def test_every_way_to_import_gives_the_same_module() -> None:
    import cleargrad.fx
    from cleargrad import fx

    assert cleargrad.fx is fx is sys.modules["cleargrad.fx"]


def test_objects_of_the_room_are_pickled_by_their_public_name() -> None:
    from cleargrad.torch_version import TorchVersion

    stored = pickle.dumps(TorchVersion("2.13"))
    assert b"cleargrad.torch_version" in stored and b"torch_names" not in stored
    assert pickle.loads(stored) == "2.13.0"


def test_programs_find_the_same_modules_as_torch(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "import torch, torch.fx, torch.backends.cudnn as cudnn\n"
        "from torch import jit\n"
        "import cleargrad, cleargrad.fx\n"
        "assert torch.fx is cleargrad.fx and jit is cleargrad.jit\n"
        "assert cudnn is torch.backends.cudnn is cleargrad.backends.cudnn\n"
        "print(cudnn.__name__)\n"
    )
    command = [sys.executable, "-m", "cleargrad", "run", str(script)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "cleargrad.backends.cudnn\n"), done.stderr


def test_python_runs_them_by_name() -> None:
    done = subprocess.run([sys.executable, "-m", "cleargrad.version"], capture_output=True, timeout=60)
    assert done.returncode == 0


def test_nothing_below_builds_on_the_room() -> None:
    """import-linter looks at files and so takes `cleargrad.fx` for a module that does not exist."""
    some = "|".join(NAMES)
    imports = re.compile(rf"^\s*(from|import) cleargrad(\.| import (.*\W)?)({some})\b", re.M)
    for path in PACKAGE.rglob("*.py"):
        if not path.is_relative_to(ROOM) and str(path.relative_to(PACKAGE)) not in ABOVE:
            found = imports.search(path.read_text(encoding="utf-8"))
            assert not found, f"{path.relative_to(PACKAGE)}: {found and found[0].strip()}"
