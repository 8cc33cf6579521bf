"""The ways in which a workload is run, and which of them this machine can run.

Imports here are relative: a worker opens this folder without importing cleargrad. Read next: bench/worker.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .machine import installed


@dataclass(frozen=True)
class Variant:
    """One way to run a workload."""

    library: str
    optimizer: tuple[tuple[str, Any], ...] = ()
    compiles: str = ""  # "model" or "step"; "script": nothing is marked, and all calls wait


FUSED, FOREACH = (("fused", True),), (("foreach", True),)
VARIANTS = {
    "torch": Variant("torch"),
    "torch foreach": Variant("torch", FOREACH),
    "torch fused": Variant("torch", FUSED),
    "torch compiled model": Variant("torch", FUSED, "model"),
    "torch compiled step": Variant("torch", (), "step"),
    "jax compiled": Variant("jax", (), "step"),
    "tinygrad compiled": Variant("tinygrad", (), "step"),
    "cleargrad": Variant("cleargrad"),
    "cleargrad unchanged": Variant("cleargrad", (), "script"),
    "cleargrad compiled": Variant("cleargrad", (), "step"),
    "bandwidth floor": Variant("bytes"),
}
PEERS = ("torch", "jax", "tinygrad")

# Libraries with another interface train what is written for them; on the rest they are not compared. tinygrad
# unrolls loops, and after minutes it had not compiled the LSTM.
WRITTEN_FOR: dict[str, tuple[str, ...]] = {
    "jax": ("linear", "mlp", "cnn", "lstm", "gpt", "gpt4", "adam"),
    "tinygrad": ("linear", "mlp", "cnn", "gpt", "adam"),
}


def variants_of(workload: str, chosen: list[str], torch_compile: bool) -> list[str]:
    """The variants that make sense here: installed, written, and with a model to compile."""
    alone = workload == "adam"  # only the update: no model, but a floor
    return [name for name in chosen if fits(VARIANTS[name], workload, alone, torch_compile)]


def fits(variant: Variant, workload: str, alone: bool, torch_compile: bool) -> bool:
    if variant.library == "bytes":
        return alone
    if variant.library in PEERS and installed(variant.library) is None:
        return False
    if variant.library == "torch" and variant.compiles:
        return torch_compile and not (alone and variant.compiles == "model")
    return workload in WRITTEN_FOR.get(variant.library, (workload,))


def left_out(workloads: list[str]) -> list[str]:
    """What is not compared, and why: one sentence each."""
    sentences = []
    for peer in PEERS:
        missing = [name for name in workloads if name not in WRITTEN_FOR.get(peer, workloads)]
        if installed(peer) is None:
            sentences.append(f"{peer} is not installed and not compared.")
        elif missing:
            sentences.append(f"{peer} is not compared on what is not written for it: {', '.join(missing)}.")
    return sentences
