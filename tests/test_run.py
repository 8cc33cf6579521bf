"""`cleargrad run`: a program written for PyTorch sees its own world, with cleargrad as `torch`."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from cleargrad.torch_version import TorchVersion


def start(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "cleargrad", "run", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60)


def write(folder: Path, name: str, program: str) -> str:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(textwrap.dedent(program))
    return str(path)


def test_an_unchanged_script_trains(tmp_path: Path) -> None:
    script = write(
        tmp_path,
        "train.py",
        """
        import argparse
        import torch
        import torch.nn as nn
        import torch.nn.functional as F
        from torch import optim
        from torch.utils.data import DataLoader, TensorDataset
        import data_here

        options = argparse.ArgumentParser()
        options.add_argument("--epochs", type=int)
        epochs = options.parse_args().epochs
        torch.manual_seed(0)
        model = nn.Linear(2, 1)
        optimizer = optim.SGD(model.parameters(), lr=0.1)
        for epoch in range(epochs):
            for x, y in DataLoader(TensorDataset(*data_here.pairs()), batch_size=4):
                optimizer.zero_grad()
                loss = F.mse_loss(model(x), y)
                loss.backward()
                optimizer.step()
            print(f"{epoch} {loss.item():.4f}")
        """,
    )
    write(
        tmp_path,
        "data_here.py",
        """
        import torch

        def pairs():
            x = torch.arange(16.0).reshape(8, 2) / 16
            return x, x.sum(1, keepdim=True)
        """,
    )
    served = start(script, "--epochs", "3", folder=tmp_path)
    plain = subprocess.run(
        [sys.executable, script, "--epochs", "3"], capture_output=True, text=True, timeout=60, cwd=tmp_path
    )
    assert served.returncode == 0, served.stderr
    assert served.stdout == plain.stdout and len(served.stdout.splitlines()) == 3


def test_the_program_sees_its_own_world(tmp_path: Path) -> None:
    program = """
        import sys, os
        print(sys.argv[1:], os.path.basename(sys.argv[0]), __name__, __file__ == sys.argv[0], __spec__)
        print(os.path.realpath(sys.path[0]) == os.path.realpath(os.path.dirname(__file__)))
        sys.exit(7)
        """
    script = write(tmp_path, "a.py", program)
    served = start(script, "-m", "--help", "x y", folder=tmp_path)
    assert served.returncode == 7, served.stderr
    assert served.stdout == "['-m', '--help', 'x y'] a.py __main__ True None\nTrue\n"


def test_the_traceback_is_the_programs_own(tmp_path: Path) -> None:
    script = write(tmp_path, "a.py", "import torch\n\ndef f():\n    return 1 / 0\n\nf()\n")
    served = start(script, folder=tmp_path)
    plain = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60)
    assert served.returncode == plain.returncode == 1
    assert served.stderr == plain.stderr


@pytest.mark.parametrize("program", ["def f(:\n", "raise SystemExit('stopped')", "raise SystemExit(3)"])
def test_ends_as_python_ends(program: str, tmp_path: Path) -> None:
    script = write(tmp_path, "a.py", program)
    served = start(script, folder=tmp_path)
    plain = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60)
    assert (served.returncode, served.stderr, served.stdout) == (plain.returncode, plain.stderr, plain.stdout)


def test_a_module_with_relative_imports(tmp_path: Path) -> None:
    write(tmp_path, "package/__init__.py", "")
    write(tmp_path, "package/__main__.py", "from .model import name\nimport sys\nprint(name, sys.argv[1:])\n")
    write(tmp_path, "package/model.py", "import torch\nname = type(torch.ones(1))\n")
    served = start("-m", "package", "--lr", "1", folder=tmp_path)
    assert served.stdout == "<class 'torch.Tensor'> ['--lr', '1']\n", served.stderr
    assert start("-m", "nothing_here", folder=tmp_path).returncode == 1
    missing = start("nothing_here.py", folder=tmp_path)
    assert missing.returncode == 2 and "can't open file 'nothing_here.py'" in missing.stderr


@pytest.mark.parametrize(
    "program, name",
    [
        ("import torch\ntorch.no_such_function(1)", "torch.no_such_function"),
        ("import torch\ntorch.nn.NoSuchModule()", "torch.nn.NoSuchModule"),
        ("from torch.nn import NoSuchModule", "torch.nn.NoSuchModule"),
        ("from torch import no_such_name", "torch.no_such_name"),
        ("import torch.no_such.module", "torch.no_such"),
        ("import torch\ntorch.ones(1).no_such_method()", "torch.Tensor.no_such_method"),
    ],
)
def test_a_missing_name_is_named(program: str, name: str, tmp_path: Path) -> None:
    served = start(write(tmp_path, "a.py", program), folder=tmp_path)
    assert served.returncode == 1
    assert served.stderr.rstrip().endswith(f"does not have {name}."), served.stderr


def test_modules_are_cleargrads_own(tmp_path: Path) -> None:
    script = write(
        tmp_path,
        "a.py",
        """
        import importlib.metadata, pickle, sys
        import torch, cleargrad
        import torch.nn.functional, torch.optim.lr_scheduler
        assert torch.nn is cleargrad.nn and torch.optim.lr_scheduler is cleargrad.optim.lr_scheduler
        assert cleargrad.nn.functional.__spec__.name == "cleargrad.nn.functional"
        assert torch.Tensor is cleargrad.Tensor and hasattr(torch, "no_such") is False
        assert importlib.metadata.version("torch") in torch.__version__
        assert torch.equal(pickle.loads(pickle.dumps(torch.ones(2))), torch.ones(2))
        from torch import *
        assert randn is torch.randn
        import torch.tensor
        from torch.autograd.gradcheck import gradcheck
        assert torch.autograd.gradcheck is gradcheck and torch.tensor(1) == 1
        """,
    )
    served = start(script, folder=tmp_path)
    assert served.returncode == 0, served.stderr


def test_modules_that_libraries_only_mention(tmp_path: Path) -> None:
    """What cleargrad has not can be imported and tested against where libraries do so; use is refused."""
    script = write(
        tmp_path,
        "a.py",
        """
        import torch
        from torch.distributed.tensor import DTensor
        from torch.fx.graph_module import _copy_attr
        from torch._higher_order_ops.associative_scan import associative_scan
        from torch.onnx import symbolic_opset11
        from torch.onnx.symbolic_helper import parse_args
        from torch.jit.annotations import BroadcastingList2
        from torch.utils.model_zoo import tqdm

        assert not isinstance(torch.ones(1), DTensor) and not torch.distributed.is_available()

        @parse_args("v", "v")
        def symbolic(graph, node, target: torch.fx.node.Target, sizes: BroadcastingList2[int]):
            return symbolic_opset11.unsqueeze(graph, node, 0)

        torch.onnx.register_custom_op_symbolic("mine::op", symbolic, 11)
        try:
            torch.ops.load_library("operators.so")
        except OSError as reason:
            print(str(reason).splitlines()[0])
        try:
            torch.ops.torchvision.nms
        except AttributeError as reason:
            print(reason)
        try:
            DTensor(1)
        except NotImplementedError as reason:
            print(str(reason).splitlines()[0])
        import torch.no_such.module
        """,
    )
    served = start(script, folder=tmp_path)
    assert served.stdout.splitlines() == [
        "torch.ops.load_library: the file is compiled for PyTorch",
        "cleargrad does not have the operator torch.ops.torchvision.nms.",
        "torch.distributed.tensor.DTensor: cleargrad does not have the module torch.distributed.tensor",
    ], served.stderr
    assert "No module named 'torch.no_such'" in served.stderr


def test_the_reader_of_safetensors(tmp_path: Path) -> None:
    """The library opens the file by itself and asks for its bytes as a storage."""
    script = write(
        tmp_path,
        "a.py",
        """
        import torch
        from safetensors import safe_open
        from safetensors.torch import load_file, save_file
        state = {"a": torch.arange(6.0).view(2, 3), "b": torch.ones(2).bfloat16()}
        state["c"] = torch.ones(2).to(torch.float8_e5m2)
        save_file(state, "x.safetensors")
        print({name: (value.dtype, value.tolist()) for name, value in sorted(load_file("x.safetensors").items())})
        with safe_open("x.safetensors", framework="pt") as file:
            print(file.get_slice("a")[:, 1:])
        """,
    )
    served = start(script, folder=tmp_path)
    torch = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert served.returncode == 0 and served.stdout == torch.stdout, served.stderr


def test_processes_it_starts_are_served_too(tmp_path: Path) -> None:
    script = write(
        tmp_path,
        "a.py",
        """
        import subprocess, sys
        import torch
        from torch.utils.data import DataLoader, Dataset

        class Squares(Dataset):
            def __len__(self):
                return 3

            def __getitem__(self, index):
                return torch.tensor(index) ** 2

        if __name__ == "__main__":
            loader = DataLoader(Squares(), num_workers=1, multiprocessing_context="spawn")
            print([int(x) for x in loader])
            version = [sys.executable, "-c", "import torch; print('cleargrad' in torch.__version__)"]
            print(subprocess.run(version, capture_output=True, text=True).stdout.strip())
        """,
    )
    served = start(script, folder=tmp_path)
    assert served.stdout == "[0, 1, 4]\nTrue\n", served.stderr


def test_versions_compare_as_numbers() -> None:
    version = TorchVersion("2.13.0+cpu")
    assert version > "2.2" and version >= (2, 13) and version < "2.14" and version == "2.13.0"
    assert not version < "2.9.1" and version.startswith("2.13")
