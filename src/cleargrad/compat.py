"""Serves cleargrad as `torch` to a program that was written for PyTorch.

`serve` puts the folder `served` on the path, for this process and for those it starts (workers of a DataLoader,
subprocesses): `import torch` then finds the package in it, whose contents are cleargrad's (`fill`). A finder gives
`torch.nn`, `torch.utils.data` and so on the very modules of cleargrad, so that no class exists twice. Programs that
ask for a name cleargrad lacks are told so by `explain_missing`. Read next: cli/run.py.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

import cleargrad
from cleargrad import version
from cleargrad.missing import MissingModule
from cleargrad.nn.parameter import Parameter
from cleargrad.torch_version import TorchVersion

SERVED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "served")

# The version of PyTorch whose behaviour cleargrad has; programs compare it to learn what they may use.
TORCH = "2.13.0"

# Classes that programs print; they go by PyTorch's names where cleargrad does.
PRINTED = {
    cleargrad.Tensor: "torch",
    cleargrad.Size: "torch",
    cleargrad.dtype: "torch",
    cleargrad.device: "torch",
    Parameter: "torch.nn.parameter",
}


def serve() -> None:
    """From now on `import torch` gives cleargrad, here and in processes that this one starts."""
    if SERVED not in sys.path:
        sys.path.insert(1, SERVED)
    inherited = os.environ.get("PYTHONPATH")
    if inherited is None or SERVED not in inherited.split(os.pathsep):
        os.environ["PYTHONPATH"] = SERVED if not inherited else os.pathsep.join((SERVED, inherited))


# Modules of PyTorch's of which libraries import names that they may never use: every name in them can be imported,
# and using one says that cleargrad does not have it.
STOOD_IN_FOR = (
    "torch._custom_ops",
    "torch.distributed.",
    "torch.fx.",
    "torch._higher_order_ops",
    "torch._dynamo.",
    "torch.nn.quantized",
    "torch.utils.flop_counter",
)


def fill(namespace: dict[str, object]) -> None:
    """Gives the module `torch` everything cleargrad has; what cleargrad loads late is loaded late here too."""
    namespace.update({name: value for name, value in vars(cleargrad).items() if not name.startswith("__")})
    namespace["__version__"] = version.__version__ = TorchVersion(f"{TORCH}+cleargrad{cleargrad.__version__}")
    namespace["__getattr__"] = late_name
    namespace.pop("ops", None)  # cleargrad.ops is another thing than torch.ops
    for printed, module in PRINTED.items():
        printed.__module__ = module
    if not any(isinstance(finder, Alias) for finder in sys.meta_path):
        sys.meta_path.insert(0, Alias())
    name_loaded_modules()


def name_loaded_modules() -> None:
    """Gives the modules that cleargrad has loaded their names in PyTorch.

    Python then takes them as they are. Were they found by `Alias`, it would also set them in their packages, and
    `import torch.autograd.gradcheck` would put a module where `torch.autograd.gradcheck` was a function.
    """
    for name, module in list(sys.modules.items()):
        if name.startswith("cleargrad.") and not name.startswith("cleargrad.ops"):
            sys.modules.setdefault(theirs(name), module)


def late_name(name: str) -> object:
    """`torch.name` where the module has no such name yet: one that cleargrad loads late, or a submodule of it."""
    try:
        value = cleargrad.library.operators if name == "ops" else getattr(cleargrad, name)
    except AttributeError:
        raise AttributeError(missing(f"torch.{name}"), name=name, obj=sys.modules["torch"]) from None
    setattr(sys.modules["torch"], name, value)
    return value


class Alias(MetaPathFinder, Loader):
    """Finds `torch.x` as `cleargrad.x`: a finder and a loader of Python's import system in one."""

    def __init__(self) -> None:
        self.specs: dict[str, ModuleSpec | None] = {}

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not name.startswith("torch.") or name.startswith("torch.ops"):
            return None
        if exists(ours(name)):
            return ModuleSpec(name, self)
        return ModuleSpec(name, StandInLoader(), is_package=True) if name.startswith(STOOD_IN_FOR) else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = importlib.import_module(ours(spec.name))
        self.specs[spec.name] = module.__spec__
        name_loaded_modules()
        return module

    def exec_module(self, module: ModuleType) -> None:
        # Python has written the alias's spec into the module, which is cleargrad's and keeps its own.
        name = module.__spec__.name if module.__spec__ is not None else ""
        module.__spec__ = self.specs.pop(name)


class StandInLoader(Loader):
    """Makes a module for one that cleargrad has not."""

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return MissingModule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """There is nothing to run."""


def exists(name: str) -> bool:
    """Whether there is such a module."""
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:  # its package is none
        return False


def ours(name: str) -> str:
    """cleargrad's name for a module of PyTorch's."""
    return "cleargrad" + name.removeprefix("torch")


def theirs(name: str) -> str:
    """PyTorch's name for a module of cleargrad's."""
    return re.sub(r"^cleargrad\b", "torch", name)


def missing(name: str) -> str:
    return f"cleargrad {cleargrad.__version__} does not have {name}."


def explain_missing(error: BaseException | None) -> None:
    """Adds a sentence to an error that comes from a name cleargrad lacks, and to the errors it came from."""
    seen = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        name = missing_name(error)
        if name is not None and missing(name) not in str(error):
            error.add_note(missing(name))
        error = error.__cause__ or error.__context__


def missing_name(error: BaseException) -> str | None:
    """The name of PyTorch's that an error says is not there; None when it is about something else."""
    if isinstance(error, AttributeError) and error.name is not None:
        owner = error.obj
        if isinstance(owner, ModuleType) and theirs(owner.__name__).split(".")[0] == "torch":
            return f"{theirs(owner.__name__)}.{error.name}"
        if type(owner) in PRINTED:
            return f"torch.{type(owner).__name__}.{error.name}"
    if isinstance(error, ImportError):
        found = re.match(r"cannot import name '(\w+)' from '((?:torch|cleargrad)[\w.]*)'", str(error))
        if found is not None:
            return f"{theirs(found[2])}.{found[1]}"
        if error.name is not None and error.name.startswith("torch."):
            return error.name
    return None
