"""`cleargrad demo`: trains a classifier of real digits, first with the classic bug and then right.

The program it trains with is demo_script.py. It is written to a folder, as it is and without its `zero_grad`,
and run from there: the doctor shows lines of the reader's own file. Read next: cli/demo_script.py,
charts/__init__.py.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import os
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from types import ModuleType
from typing import Any

from cleargrad.cli import terminal
from cleargrad.cli.terminal import WRONG_USAGE, CommandError, paint

FORGOTTEN = "optimizer.zero_grad()"
HIGHEST = 30.0  # losses above are cut off in the chart
EAGER_STEPS = 150  # enough to say what a step costs that is not compiled

DESCRIPTION = """\
Trains a small network to read handwritten digits, twice. The first script
forgets optimizer.zero_grad(), and the doctor finds it; the second has that
line, and runs compiled. Writes both scripts and both curves to a folder.
Takes a few seconds."""

EPILOG = """\
examples:
  cleargrad demo
  cleargrad demo --folder /tmp/demo --steps 300

Read on: docs/what-zero-grad-does.md, docs/compile.md.
The digits are by E. Alpaydin and C. Kaynak (UCI), CC BY 4.0."""


def add_to(commands) -> None:
    """Declares the command and its options."""
    parser = commands.add_parser(
        "demo",
        help="see a forgotten zero_grad found and repaired, on real data",
        description=DESCRIPTION,
        epilog=EPILOG,
    )
    parser.add_argument(
        "--folder", metavar="DIR", default="cleargrad-demo", help="where files go (default: cleargrad-demo)"
    )
    parser.add_argument(
        "--steps",
        metavar="N",
        type=int,
        default=600,
        help="steps of each run (default: 600; the mistake shows after about 150)",
    )
    parser.set_defaults(command=demonstrate)


@dataclass
class Run:
    """What a training run did, and how long each step took, its share of choosing a batch included."""

    name: str
    losses: list[float] = field(default_factory=list)
    accuracies: dict[int, float] = field(default_factory=dict)
    times: list[float] = field(default_factory=list)

    @property
    def speed(self) -> float:
        """Steps per second, of the later half: compiling is not part of it."""
        return 1 / median(self.times[len(self.times) // 2 :])

    @property
    def accuracy(self) -> float:
        return self.accuracies[max(self.accuracies)]

    def in_words(self) -> str:
        losses = f"loss {self.losses[0]:.2f} -> {self.losses[-1]:.2f}"
        return f"{self.name:<14}{losses}   accuracy {self.accuracy:.1%}   {self.speed:,.0f} steps/s"


def demonstrate(options: argparse.Namespace) -> int:
    """Both runs, the finding, the curves, and what to try next."""
    if options.steps < 20:
        rule = "--steps must be at least 20, so that there is something to see"
        raise CommandError("cleargrad demo", rule, got=options.steps, status=WRONG_USAGE)
    folder = Path(options.folder)
    write_scripts(folder)
    print(
        paint("cleargrad demo", "bold")
        + f": a network learns to read digits, {options.steps:,} steps, twice.\n"
    )
    print(paint(f"1. A script that forgets {FORGOTTEN}", "bold"))
    wrong, session = run_watched(folder, options.steps)
    print(f"   {wrong.in_words()} (watched)\n\n   The doctor watched the run, and says:\n")
    print(finding_text(session) + "\n")

    print(paint("2. The same script with that line, and its step compiled", "bold"))
    right = run_script(open_script(folder / "right.py"), options.steps, compiled=True)
    print(f"   {right.in_words()}")
    script, steps = open_script(folder / "right.py"), min(EAGER_STEPS, options.steps)
    eager = run_script(script, steps, compiled=False, title="for comparison, uncompiled")
    print(f"   {speed_in_words(right, eager)}\n")

    print(drawn(wrong, right) + "\n")
    written = write_charts(folder, wrong, right, session, speed_in_words(right, eager))
    print(f"Written to {folder}{os.sep}: {', '.join(['forgetful.py', 'right.py', *written])}")
    print(next_steps(folder))
    return 0


# Running ---------------------------------------------------------------------------------------------------


def write_scripts(folder: Path) -> None:
    """The program as it is, and without the line that is so easily forgotten."""
    source = (Path(__file__).parent / "demo_script.py").read_text(encoding="utf-8")
    lines = source.splitlines(keepends=True)
    forgetful = "".join(line for line in lines if line.strip() != FORGOTTEN)
    terminal.make_folder("cleargrad demo", folder)
    (folder / "right.py").write_text(source, encoding="utf-8")
    (folder / "forgetful.py").write_text(forgetful, encoding="utf-8")


def open_script(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path.resolve())
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run_watched(folder: Path, steps: int) -> tuple[Run, Any]:
    """The run with the mistake, under the doctor's eyes."""
    from cleargrad import doctor

    script = open_script(folder / "forgetful.py")
    with doctor.watch(engine="cleargrad", warn=False) as session:
        run = run_script(script, steps, compiled=False)
    return run, session


def run_script(script: ModuleType, steps: int, compiled: bool, title: str = "") -> Run:
    """One training run, with a bar; the title stands for the script's name in it."""
    run = Run(f"{script.__name__}.py")
    training = script.train(steps, compiled)
    begin = shown = time.perf_counter()
    with terminal.progress(title or run.name, steps) as advance:
        for number in itertools.count(1):
            reached = next(training, None)
            if reached is None:
                return run
            loss, accuracy = reached
            end = time.perf_counter()
            run.losses.append(loss)
            if accuracy is None:
                run.times.append(end - begin)
            else:
                run.accuracies[number] = accuracy
                if end - shown > 0.05:
                    shown = end
                    advance(number, f"loss {loss:.2f}  accuracy {accuracy:3.0%}  {run.speed:,.0f} steps/s")
            begin = time.perf_counter()
    return run


# Showing ---------------------------------------------------------------------------------------------------


def finding_text(session: Any) -> str:
    from cleargrad.doctor.reports import as_text

    return as_text.write_for(sys.stdout, session)


def speed_in_words(compiled: Run, eager: Run) -> str:
    first = sum(compiled.times[:3])
    return (
        f"One native program: {1e3 / compiled.speed:.2f} ms a step, {1e3 / eager.speed:.2f} uncompiled; "
        f"compiled within {first:.1f} s."
    )


def make_charts(wrong: Run, right: Run) -> list[Any]:
    from cleargrad.charts import Curve, Curves

    losses, accuracies = [], []
    for colour, (name, run) in enumerate((("no zero_grad", wrong), ("right", right))):
        steps = [float(number) for number in range(1, len(run.losses) + 1)]
        losses.append(Curve(name, steps, run.losses, colour))
        percent = [100 * value for value in run.accuracies.values()]
        accuracies.append(Curve(name, [float(number) for number in run.accuracies], percent, colour))
    # Without zero_grad the loss may explode; a few such steps would flatten everything else.
    least = min(min(run.losses) for run in (wrong, right))
    return [
        Curves(
            "loss, on a logarithmic scale",
            "step",
            losses,
            is_logarithmic=True,
            limits=(max(least, 1e-6), HIGHEST),
        ),
        Curves("accuracy on 297 images that were held back", "step", accuracies, unit="%", limits=(0, 100)),
    ]


def drawn(wrong: Run, right: Run) -> str:
    from cleargrad.charts.in_terminal import draw

    try:
        "⠿┤".encode(sys.stdout.encoding or "ascii")
        has_braille = True
    except UnicodeEncodeError:
        has_braille = False
    return draw(
        make_charts(wrong, right)[1],
        paint=lambda text, colour: paint(text, ("red", "blue")[colour]),
        braille=has_braille,
    )


def write_charts(folder: Path, wrong: Run, right: Run, session: Any, speed: str) -> list[str]:
    """The page, and a picture where matplotlib is installed; their names."""
    from cleargrad.charts import as_png
    from cleargrad.charts.as_page import figure, page, paragraph, preformatted
    from cleargrad.doctor.reports import as_text

    losses, accuracies = make_charts(wrong, right)
    sections = [
        (
            "Accuracy",
            figure(accuracies, "Share of 297 images, held back from training, that were read correctly."),
        ),
        (
            "Loss",
            figure(
                losses, f"Cross entropy of each batch, on a logarithmic scale; cut off above {HIGHEST:g}."
            ),
        ),
        ("What the doctor says of the first run", preformatted(as_text.write(session))),
        ("The second run", paragraph(speed)),
        (
            "The data",
            paragraph(
                "Optical Recognition of Handwritten Digits, by E. Alpaydin and C. Kaynak, from the UCI Machine "
                "Learning Repository, CC BY 4.0."
            ),
        ),
    ]
    title = "What a forgotten zero_grad does"
    introduction = (
        "Two runs of one script. backward() adds to the gradients that are there; the first run never clears "
        "them, so each step uses the gradients of all steps before it once more."
    )
    (folder / "curves.html").write_text(page(title, introduction, sections), encoding="utf-8")
    return [
        "curves.html",
        *(["curves.png"] if as_png.save(folder / "curves.png", [accuracies, losses]) else []),
    ]


def next_steps(folder: Path) -> str:
    """Commands as they can be typed here, with what they are good for."""
    program = terminal.program()
    commands = {
        f"{program} doctor {folder / 'forgetful.py'}": "works on any training script",
        f"{program} explain {folder / 'right.py'}": "its gradients, step by step",
        f"{program} run your_script.py": "your PyTorch script, unchanged",
    }
    width = max(map(len, commands))
    fits = width + max(map(len, commands.values())) <= 76
    lines = []
    for command, text in commands.items():
        padded = f"{command:<{width}}  " if fits else f"{command}\n      "
        lines.append(f"  {paint(padded, 'cyan')}{text}")
    return "\n".join(["", paint("Try next", "bold"), *lines])
