"""Parameters that are the same in every library: by name, from NumPy's generator.

`random_weights` fills any shapes. Libraries with PyTorch's interface bring the shapes of their own modules; for
the others `SHAPES` has them, with the names and in the order of PyTorch's. Read next: bench/workloads.py.
"""

from __future__ import annotations

import numpy as np

Shapes = dict[str, tuple[int, ...]]


def random_weights(shapes: Shapes) -> dict[str, np.ndarray]:
    """Matrices and kernels are random, vectors are 0; those that scale, as in norms, are 1."""
    random = np.random.default_rng(0)
    made = {}
    for name, shape in shapes.items():
        if len(shape) > 1:
            made[name] = (random.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)
        else:
            made[name] = np.full(shape, "bias" not in name, np.float32)
    return made


def layer(name: str, weight: tuple[int, ...]) -> Shapes:
    """A layer with one bias for each of its outputs."""
    return {f"{name}.weight": weight, f"{name}.bias": weight[:1]}


def lstm(layers: int, width: int) -> Shapes:
    kinds: Shapes = {"weight_ih": (4 * width, width), "weight_hh": (4 * width, width)}
    kinds |= {"bias_ih": (4 * width,), "bias_hh": (4 * width,)}
    return {f"lstm.{kind}_l{k}": shape for k in range(layers) for kind, shape in kinds.items()}


def gpt(vocabulary: int, context: int, width: int, layers: int) -> Shapes:
    shapes: Shapes = {"table.weight": (vocabulary, width), "places.weight": (context, width)}
    for k in range(layers):
        block = f"blocks.{k}"
        shapes |= layer(f"{block}.norm", (width,)) | layer(f"{block}.second_norm", (width,))
        shapes |= layer(f"{block}.attend", (3 * width, width)) | layer(f"{block}.project", (width, width))
        shapes |= layer(f"{block}.widen", (4 * width, width)) | layer(f"{block}.narrow", (width, 4 * width))
    return shapes | layer("norm", (width,)) | {"head.weight": (vocabulary, width)}


SHAPES: dict[str, Shapes] = {
    "linear": layer("0", (2, 10)),
    "mlp": layer("0", (128, 784)) | layer("2", (128, 128)) | layer("4", (10, 128)),
    "cnn": layer("0", (32, 1, 3, 3))
    | layer("2", (64, 32, 3, 3))
    | layer("6", (128, 9216))
    | layer("8", (10, 128)),
    "lstm": {"table.weight": (64, 128)} | lstm(2, 128) | layer("head", (64, 128)),
    "gpt": gpt(65, 64, 128, 4),
}
