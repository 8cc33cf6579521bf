"""The examples train alike with and without `--compile`: every loss of every step is the same, to the bit.

`python -m tests.compile.test_examples` runs 200 steps of each and prints how far the curves are apart, next to how
far two eager runs are that start with one weight changed in its last place.
"""

from __future__ import annotations

import pytest

from tests.printed import CLEARGRAD, ROOT, run

SHORT = {
    "regression.py": "--epochs 3 --houses 400",
    "mlp.py": "--epochs 2 --images 700",
    "cnn.py": "--epochs 2 --images 400",
    "vae.py": "--epochs 2 --images 1000",
    "gan.py": "--steps 30",
    "char_lstm.py": "--epochs 2",
    "char_gpt.py": "--steps 20",
    "reinforce.py": "--episodes 4",
    "lbfgs_series.py": "--steps 1 --waves 12 --length 12",
    "mixed_precision.py": "--epochs 1 --dtype float16",
    "spiral.py": "30",
}
LONG = {
    "regression.py": "--epochs 7",
    "mlp.py": "--epochs 4 --images 4000",
    "cnn.py": "--epochs 5",
    "vae.py": "--epochs 5",
    "gan.py": "--steps 200",
    "char_lstm.py": "--epochs 30",
    "char_gpt.py": "--steps 200",
    "reinforce.py": "--episodes 20",
    "lbfgs_series.py": "--steps 18 --waves 20",
    "mixed_precision.py": "--epochs 4 --dtype float16",
    "mixed_precision.py ": "--epochs 4 --dtype bfloat16",
    "spiral.py": "200",
}
MARK = "losses of the steps"
SCRIPT = ROOT / "tests" / "compile" / "example_curves.py"


def curve(how: str, name: str, arguments: str) -> tuple[str, list[float]]:
    """What an example prints, and the losses of its steps."""
    printed = run(SCRIPT, how, str(ROOT / "examples" / name), *arguments.split(), under=CLEARGRAD)
    text, _, losses = printed.rpartition(MARK)
    return text, [float(loss) for loss in losses.split()]


def distance(one: list[float], other: list[float]) -> float:
    """The largest difference between losses, as a part of the loss where that is more than one."""
    return max(abs(a - b) / max(1.0, abs(b)) for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("name", SHORT)
def test_losses_of_compiled_steps(name: str) -> None:
    _, compiled = curve("compiled", name, SHORT[name])
    _, eager = curve("eager", name, SHORT[name])
    assert len(eager) > 10
    assert compiled == eager


def main() -> None:
    for name, arguments in LONG.items():
        losses = {how: curve(how, name.strip(), arguments)[1] for how in ("eager", "compiled", "rounded")}
        shortest = min(200, *map(len, losses.values()))
        first = {how: found[:shortest] for how, found in losses.items()}
        apart = {how: distance(first[how], first["eager"]) for how in ("compiled", "rounded")}
        print(
            f"{name:20s} {shortest:4d} steps   loss {first['eager'][0]:.4f} to {first['eager'][-1]:.4f}   "
            f"compiled {apart['compiled']:.1e}   rounding {apart['rounded']:.1e}",
            flush=True,
        )


if __name__ == "__main__":
    main()
