"""Resume is exact: a run that is killed and resumed in another process prints the losses it would have printed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

PROGRAM = """
import os, random, signal, sys
import cleargrad as torch
from cleargrad import nn

path, mode, workers, stop = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])


class Augmented(torch.utils.data.Dataset):
    def __init__(self):
        self.x, self.y = torch.randn(50, 8), torch.randint(0, 3, (50,))

    def __len__(self):
        return 50

    def __getitem__(self, index):
        return self.x[index] + 0.1 * torch.randn(8) + 0.1 * random.random(), self.y[index]


torch.manual_seed(0)
random.seed(0)
data = Augmented()
if mode == "resume":  # nothing but the checkpoint may decide how it goes on
    torch.manual_seed(int.from_bytes(os.urandom(4), "little"))
    random.seed()
model = nn.Sequential(nn.Linear(8, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(0.3), nn.Linear(32, 3))
half = len(model) // 2
optimizer = torch.optim.AdamW(model[:half].parameters(), lr=0.01)
other = torch.optim.SGD(model[half:].parameters(), lr=0.01, momentum=0.9, nesterov=True)
scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.02, total_steps=200)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**24, growth_interval=3)
loader = torch.utils.data.DataLoader(
    data, batch_size=4, shuffle=True, num_workers=workers, persistent_workers=workers > 1
)
parts = {"model": model, "optimizer": optimizer, "other": other, "scheduler": scheduler, "scaler": scaler}
parts["loader"] = loader


def save(epoch, step):
    checkpoint = {name: part.state_dict() for name, part in parts.items()}
    checkpoint |= {"epoch": epoch, "step": step, "rng": torch.get_rng_state(), "python": random.getstate()}
    torch.save(checkpoint, path)


epoch, step = 0, 0
if mode == "resume":
    checkpoint = torch.load(path)
    for name, part in parts.items():
        part.load_state_dict(checkpoint[name])
    epoch, step = checkpoint["epoch"], checkpoint["step"]
    random.setstate(checkpoint["python"])
    torch.set_rng_state(checkpoint["rng"])

for epoch in range(epoch, 3):
    for window in torch.accumulate(loader, 2, [optimizer, other], scaler=scaler):
        for x, y in window:
            with torch.autocast("cpu", dtype=torch.float16):
                loss = nn.functional.cross_entropy(model(x), y)
            window.backward(loss, len(x))
            print(loss.item().hex(), flush=True)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        if window.step():
            scheduler.step()
        step += 1
        if step == stop and mode == "killed":
            save(epoch, step)
            os.kill(os.getpid(), signal.SIGKILL)
print(scaler.get_scale(), scheduler.get_last_lr()[0].hex(), torch.rand(()).item().hex())
"""


def run(folder: Path, *arguments: object) -> list[str]:
    program = folder / "train.py"
    program.write_text(PROGRAM)
    command = [sys.executable, str(program), str(folder / "checkpoint.pt"), *map(str, arguments)]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120)
    expected = -signal.SIGKILL if "killed" in arguments else 0
    assert done.returncode == expected, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize(("workers", "stop"), [(0, 4), (0, 7), (2, 11)])
def test_killed_run_resumes_exactly(tmp_path, workers, stop):
    """Two optimizers, a schedule, a scale that overflows and grows, dropout, shuffles, random samples, workers."""
    whole = run(tmp_path, "whole", workers, stop)
    before = run(tmp_path, "killed", workers, stop)
    after = run(tmp_path, "resume", workers, stop)
    assert len(whole) == 3 * 13 + 1 and 0 < len(before) < len(whole) - 2
    assert before + after == whole
