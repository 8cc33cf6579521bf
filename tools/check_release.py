"""Builds wheel and sdist, installs the wheel into empty environments and uses it there, as a newcomer would.

Every Python from 3.11 on that is found by name (python3.12, ...) takes part, besides the one that runs this. Checks
what is in the wheel, and how large an installation is. Needs the package `build`. Read next: .ci/run.

python tools/check_release.py [--json benchmarks/results/install.json]
"""

from __future__ import annotations

import argparse
import json
import platform
import shutil
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).parent.parent
LARGEST = 300  # MB, with all dependencies
IN_THE_WHEEL = (
    "cleargrad/py.typed",
    "cleargrad/datasets/digits.npz",
    "cleargrad/datasets/digits.txt",
    "cleargrad/doctor/reports/page/page.css",
    "cleargrad/cli/demo_script.py",
    "pytest_gradient_doctor.py",
)
SMOKE = """
import tempfile, warnings
from pathlib import Path
import cleargrad as torch
import cleargrad.backends.cudnn
from cleargrad import doctor, fx, nn
assert torch.backends.cudnn.is_available() is False and fx.__name__ == "cleargrad.fx"
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
x = torch.randn(64, 4)
y = x.sum(1, keepdim=True)

@torch.compile(fullgraph=True)
def step():
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
    return loss

losses = [step().item() for _ in range(100)]
assert losses[-1] < 0.1 * losses[0], losses
with tempfile.TemporaryDirectory() as folder:
    torch.save(model.state_dict(), Path(folder) / "model.pt")
    model.load_state_dict(torch.load(Path(folder) / "model.pt"))
optimizer.zero_grad()
with doctor.watch(model, optimizer, warn=False) as watched:
    for _ in range(2):
        model(x).mean().backward()
        optimizer.step()
assert [finding.rule for finding in watched.findings] == ["gradient-reused"], str(watched)
"""


def run(*command: object, folder: Path | None = None) -> str:
    """Runs a command and gives what it printed; a failure ends everything, with all that was said."""
    done = subprocess.run([str(word) for word in command], cwd=folder, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"failed: {' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


def build(folder: Path) -> Path:
    """The wheel; the sdist must build too, and give the same wheel."""
    run(sys.executable, "-m", "build", "--outdir", folder, ROOT)
    (wheel,) = folder.glob("*.whl")
    assert len(list(folder.glob("*.tar.gz"))) == 1
    return wheel


def check_wheel(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    missing = [name for name in IN_THE_WHEEL if name not in names]
    foreign = [name for name in names if not name.startswith(("cleargrad", "pytest_gradient_doctor"))]
    # Everything that is no bytecode under src belongs to the package.
    files = {
        str(path.relative_to(ROOT / "src"))
        for path in (ROOT / "src" / "cleargrad").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    missing += sorted(files - names)
    if missing or foreign:
        raise SystemExit(f"the wheel lacks {missing} and should not have {foreign}")
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert f"cleargrad-{version}-" in wheel.name, wheel.name


def pythons() -> list[str]:
    """This Python, and newer or older ones that are found by name and start."""
    found = {sys.version_info[:2]: sys.executable}
    for minor in range(11, 16):
        path = shutil.which(f"python3.{minor}")
        works = (
            path
            and subprocess.run([path, "-c", "import venv, ensurepip"], capture_output=True).returncode == 0
        )
        if path and works:
            found.setdefault((3, minor), path)
    return [found[version] for version in sorted(found)]


def use(python: str, wheel: Path, folder: Path) -> Path:
    """Installs the wheel into an environment of its own, and uses it. Gives the environment's Python."""
    run(python, "-m", "venv", folder)
    inside = folder / "bin" / "python"
    run(inside, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wheel)
    version = run(folder / "bin" / "cleargrad", "--version").strip()
    run(inside, "-W", "error", "-c", SMOKE, folder=folder)
    said = run(
        folder / "bin" / "cleargrad", "demo", "--steps", "100", "--folder", folder / "demo", folder=folder
    )
    assert "gradient-reused" in said, said
    number = run(inside, "-c", "import platform; print(platform.python_version())").strip()
    print(f"{version} works on Python {number}", flush=True)
    return inside


# Sizes -----------------------------------------------------------------------------------------------------

SIZES = """
import json, sys
from importlib import metadata
sizes = {}
for found in metadata.distributions():
    name = found.metadata["Name"]
    if name not in ("pip", "setuptools"):
        files = [found.locate_file(file) for file in found.files or ()]
        sizes[name] = sum(file.stat().st_size for file in files if file.exists()) / 1e6
print(json.dumps(dict(sorted(sizes.items(), key=lambda item: -item[1]))))
"""


def size_of_torch() -> float | None:
    """MB of PyTorch and what it requires, where it is installed beside this script."""
    sizes: dict[str, float] = {}
    names = ["torch"]
    while names:
        name = names.pop()
        if name in sizes:
            continue
        try:
            found = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            if name == "torch":
                return None
            continue  # needed elsewhere only
        files = [Path(str(found.locate_file(file))) for file in found.files or ()]
        sizes[name] = sum(file.stat().st_size for file in files if file.exists()) / 1e6
        names += [
            text.split(";")[0].split()[0].split("[")[0].rstrip("<>=!~0123456789.,") for text in wanted(found)
        ]
    return round(sum(sizes.values()), 1)


def wanted(found: metadata.Distribution) -> list[str]:
    """What a package requires without any extra."""
    return [text for text in found.requires or () if "extra ==" not in text]


def report(inside: Path) -> dict:
    sizes = {name: round(size, 1) for name, size in json.loads(run(inside, "-c", SIZES)).items()}
    return {
        "command": "python tools/check_release.py --json benchmarks/results/install.json",
        "machine": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "unit": f"MB of files after pip install, bytecode included; at most {LARGEST} is asked for",
        "MB": round(sum(sizes.values()), 1),
        "torch, MB": size_of_torch(),
        "packages, MB": sizes,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, help="write the sizes here")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        wheel = build(folder / "dist")
        check_wheel(wheel)
        print(f"{wheel.name} is complete, {wheel.stat().st_size / 1e6:.1f} MB")
        insides = [use(python, wheel, folder / f"venv{k}") for k, python in enumerate(pythons())]
        found = report(insides[0])
    print(f"installed: {found['MB']} MB with all dependencies")
    if found["MB"] > LARGEST:
        raise SystemExit(f"more than {LARGEST} MB")
    if options.json:
        options.json.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
