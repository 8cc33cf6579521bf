"""Draws docs/figures/finding.svg: what `cleargrad doctor` says about the README's program without its zero_grad.

The program runs under the real command, which writes to a terminal of our own; its colours become SVG.

python docs/figures/finding.py
"""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
import tempfile
from html import escape
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
LETTER, LINE, EDGE, BAR = 8.43, 19.5, 18, 34  # width of a letter, height of a line, margins, title bar
COLUMNS = 84
CLASSES = {"1;31": "error", "1;33": "warning", "1;36": "info", "32": "fix", "2": "faint", "1": "bold"}
STYLE = """\
text { font: 14px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: #d8dee6;
  white-space: pre; }
.back { fill: #151a21; stroke: #3a434e; } .bar { fill: #8794a3; } .prompt { fill: #7fb8ff; }
.error { fill: #ff8f84; font-weight: 700; } .warning { fill: #f0b35a; font-weight: 700; }
.info { fill: #7fb8ff; font-weight: 700; } .bold { font-weight: 700; fill: #ffffff; } .fix { fill: #5fd382; }
.faint { fill: #8794a3; }
"""


def program() -> str:
    """The README's training script, without the line that clears gradients."""
    block = re.search(r"```python\n(import cleargrad.*?)```", (ROOT / "README.md").read_text(), re.S).group(1)
    lines = [line.split("  #")[0] for line in block.splitlines() if "zero_grad" not in line]
    return "\n".join(lines) + "\n"


def said(folder: Path) -> str:
    """What the doctor prints on a terminal."""
    (folder / "train.py").write_text(program())
    main, terminal = pty.openpty()
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "COLUMNS": str(COLUMNS), "TERM": "xterm"}
    environment.pop("NO_COLOR", None)
    command = [sys.executable, "-m", "cleargrad", "doctor", "--max-steps", "150", "train.py"]
    subprocess.run(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=terminal, env=environment)
    os.close(terminal)
    text = b""
    while True:
        try:
            part = os.read(main, 65536)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        text += part
    os.close(main)
    return text.decode().replace("\r\n", "\n").rstrip()


def spans(text: str) -> list[list[tuple[str, str]]]:
    """Lines of pieces, each with its class."""
    lines: list[list[tuple[str, str]]] = [[]]
    current = ""
    for piece in re.split(r"(\x1b\[[\d;]*m|\n)", text):
        if piece == "\n":
            lines.append([])
        elif piece.startswith("\x1b["):
            current = CLASSES.get(piece[2:-1], "")
        elif piece:
            lines[-1].append((piece, current))
    return lines


def draw(lines: list[list[tuple[str, str]]]) -> str:
    width = round(2 * EDGE + LETTER * COLUMNS)
    height = round(BAR + EDGE + LINE * len(lines) + EDGE / 2)
    parts = [f'<rect class="back" x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="9"/>']
    parts += [f'<circle class="bar" cx="{22 + 18 * k}" cy="18" r="5"/>' for k in range(3)]
    for row, pieces in enumerate(lines):
        inner = "".join(f'<tspan class="{kind}">{escape(text)}</tspan>' for text, kind in pieces)
        y = BAR + EDGE + LINE * row
        parts.append(f'<text x="{EDGE}" y="{y:g}" xml:space="preserve">{inner}</text>')
    label = "A finding of the doctor: step 2 used a gradient that step 1 had used before"
    opening = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" role="img" aria-label="{label}">'
    )
    return "\n".join([opening, f"<style>\n{STYLE}</style>", *parts, "</svg>\n"])


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        text = said(Path(folder))
    lines = [[("$ cleargrad doctor train.py", "prompt")], [], *spans(text)]
    (HERE / "finding.svg").write_text(draw(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
