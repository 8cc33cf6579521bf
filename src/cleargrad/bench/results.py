"""From measured times to figures: ratios to the best rival, their spread, and whether the losses agree.

Read next: bench/report.py.
"""

from __future__ import annotations

import math
from statistics import median
from typing import Any

from cleargrad.bench.architectures import EVERY
from cleargrad.bench.runner import Runner
from cleargrad.bench.variants import VARIANTS, WRITTEN_FOR

OTHERS = "time / best of JAX and tinygrad"
AGREE = 1e-3  # by how much losses may differ, relative to their size


def results(runners: dict[str, Runner]) -> dict[str, Any]:
    """Figures by variant; ratios are to the best PyTorch variant whose losses are those of PyTorch's eager one.

    Without PyTorch they are to the best of the other rivals, and where there is none, to cleargrad's eager steps.
    """
    measured = {name: runner for name, runner in runners.items() if runner.times and not runner.failure}
    rivals = rivals_among(list(measured))
    reference = measured[rivals[0]].facts["losses"] if rivals else None
    theirs = {
        n: median(measured[n].times) for n in rivals if agrees(measured[n].facts["losses"], reference or [])
    }
    best = min(theirs, key=lambda name: theirs[name], default=None)
    quickest = min((min(measured[name].times) for name in theirs), default=math.nan)
    rows: dict[str, Any] = {}
    for name, runner in runners.items():
        if name not in measured:
            rows[name] = {"failure": runner.failure or "not measured"}
            continue
        row = rows[name] = figures(runner)
        if best is not None:
            ratios = [own / other for own, other in zip(runner.times, measured[best].times)]
            row["ratio"] = round(median(runner.times) / theirs[best], 4)
            row["ratio of least"] = round(min(runner.times) / quickest, 4)
            row["spread"] = [round(quantile(ratios, share), 4) for share in (0.25, 0.75)]
        if VARIANTS[name].library != "bytes" and reference is not None:
            losses = runner.facts["losses"]
            row["loss"], row["loss differs by"] = losses[-1], distance(losses, reference)
    return {"best": best, "variants": rows}


def rivals_among(names: list[str]) -> list[str]:
    """Those that ratios are to."""
    for libraries in (("torch",), ("jax", "tinygrad"), ("cleargrad",)):
        found = [name for name in names if VARIANTS[name].library in libraries]
        if found:
            return found if libraries != ("cleargrad",) else found[:1]
    return []


def figures(runner: Runner) -> dict[str, Any]:
    facts = runner.facts
    row = {
        "ms": round(median(runner.times) * 1e3, 4),
        "least, ms": round(min(runner.times) * 1e3, 4),
        "first calls, s": round(runner.first_calls, 3),
        "peak, MB": round(facts["peak"], 1),
        "grown, MB": round(facts["grown"], 1),
    }
    if "cold" in facts:
        row["first calls cold, s"] = round(facts["cold"], 3)
    if facts.get("other_batch") is not None:
        row["ready for another batch size, s"] = round(facts["other_batch"], 3)
    if facts["warnings"]:
        row["warnings"] = facts["warnings"]
    return row


def quantile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[round(share * (len(ordered) - 1))]


def agrees(losses: list[float], reference: list[float]) -> bool:
    return distance(losses, reference) <= AGREE


def distance(losses: list[float], reference: list[float]) -> float:
    pairs = zip(losses, reference, strict=True)
    worst = max(abs(a - b) / max(abs(b), 1e-2) if math.isfinite(a) else math.inf for a, b in pairs)
    return float(f"{worst:.2g}")


def summary(found: dict[str, Any]) -> dict[str, Any]:
    """What the bars are about, by workload."""
    rows: dict[str, Any] = {}
    for workload, result in found.items():
        variants = result["variants"]
        names = ("cleargrad compiled", "cleargrad unchanged", "cleargrad")
        ours, unchanged, eager = (variants.get(name, {}) for name in names)
        theirs = [v["peak, MB"] for n, v in variants.items() if n.startswith("torch") and "peak, MB" in v]
        row = rows[workload] = {
            "bar": EVERY[workload].bar,
            "goal": EVERY[workload].goal,
            "best": result["best"],
            "compiled": ours.get("ratio"),
            "unchanged": unchanged.get("ratio"),
            "eager": eager.get("ratio"),
            "first calls cold, s": (unchanged or ours).get("first calls cold, s"),
            "first calls warm, s": ours.get("first calls, s"),
            "ready for another batch size, s": ours.get("ready for another batch size, s"),
        }
        others = [v["ms"] for n, v in variants.items() if VARIANTS[n].library in WRITTEN_FOR and is_sound(v)]
        if others and "ms" in ours:
            row[OTHERS] = round(ours["ms"] / min(others), 3)
        if theirs and "peak, MB" in ours:
            row["peak / least of PyTorch's"] = round(ours["peak, MB"] / min(theirs), 3)
        if "ms" in ours and "ms" in variants.get("bandwidth floor", {}):
            row["time / bandwidth floor"] = round(ours["ms"] / variants["bandwidth floor"]["ms"], 3)
    return rows


def is_sound(row: dict[str, Any]) -> bool:
    """Whether it was measured, and its losses are those of the reference."""
    return "ms" in row and row.get("loss differs by", 0) <= AGREE


def reference(found: dict[str, Any]) -> str:
    """Whose time ratios are to, in words."""
    libraries = {VARIANTS[result["best"]].library for result in found.values() if result["best"]}
    return {"torch": "PyTorch's best", "cleargrad": "its own eager steps"}.get(
        "".join(libraries), "the best rival's"
    )


def geometric_mean(values: list[float | None]) -> float | None:
    known = [value for value in values if value]
    return round(math.exp(sum(map(math.log, known)) / len(known)), 3) if known else None


def differing(found: dict[str, Any]) -> list[str]:
    """Where cleargrad's losses are not those of the reference."""
    return [
        f"{workload}, {name}"
        for workload, result in found.items()
        for name, row in result["variants"].items()
        if row.get("loss differs by", 0) > AGREE and VARIANTS[name].library == "cleargrad"
    ]
