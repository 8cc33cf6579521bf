"""The text of a tensor, character for character as PyTorch 2.13 prints it.

In: the tensor's numbers as a NumPy array and the facts named beside them (dtype, device, gradient).
Out: a string such as `tensor([[1., 2.]], dtype=torch.float64, grad_fn=<MulBackward0>)`.
The way there: pick the elements that will be seen (`_select_shown`), write each one (`_write_cells`),
lay them out in brackets (`_lay_out`), then add what cannot be read off the numbers (`_suffixes`).
Read next: tensor.py, whose `__repr__` and `__format__` call this file.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass

import numpy as np

# Scripts compare and parse printed tensors, so dtypes carry the name of the package we stand in for.
DTYPE_PREFIX = "torch."

# Above these, fixed notation would either run wide or show small numbers as zeros.
LARGEST_FIXED = 1e8
SMALLEST_FIXED = 1e-4
WIDEST_FIXED_RATIO = 1000.0


@dataclass
class PrintOptions:
    """What `set_printoptions` sets; `sci_mode=None` lets the numbers decide."""

    precision: int = 4
    threshold: float = 1000
    edgeitems: int = 3
    linewidth: int = 80
    sci_mode: bool | None = None


_PROFILES: dict[str | None, PrintOptions] = {
    "default": PrintOptions(),
    "short": PrintOptions(precision=2, edgeitems=2),
    "full": PrintOptions(threshold=math.inf),
}

_options = PrintOptions()


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Set how tensors print; single options win over `profile` ("default", "short", "full").

    As in PyTorch, `sci_mode` returns to None when it is not given, and an unknown profile changes nothing.
    """
    given = {"precision": precision, "threshold": threshold, "edgeitems": edgeitems, "linewidth": linewidth}
    chosen = asdict(_PROFILES.get(profile, _options))
    chosen.update({name: value for name, value in given.items() if value is not None})
    chosen["sci_mode"] = sci_mode
    _replace_options(chosen)


def get_printoptions() -> dict:
    """The options now in force, as the keyword arguments of `set_printoptions`."""
    return asdict(_options)


@contextmanager
def printoptions(**changes) -> Iterator[None]:
    """Set print options for the length of a `with` block."""
    before = get_printoptions()
    set_printoptions(**changes)
    try:
        yield
    finally:
        _replace_options(before)


def _replace_options(values: dict) -> None:
    global _options
    _options = PrintOptions(**values)


def format_tensor(
    data: np.ndarray,
    *,
    dtype_name: str,
    requires_grad: bool,
    grad_fn_name: str | None,
    device: str = "cpu",
    default_dtype_name: str = "float32",
    class_name: str = "tensor",
    indent: int = 0,
    has_values: bool = True,
) -> str:
    """Write a tensor as PyTorch's `repr` does; one without values says what it is instead.

    `class_name` is "tensor", "Parameter" (which adds PyTorch's heading line) or the name of a subclass.
    `indent` is the number of columns already taken on the line where the text will start.
    """
    is_parameter = class_name == "Parameter"
    opening = "tensor(" if is_parameter else class_name + "("
    column = indent + len(opening)
    body = "..." if not has_values else _write_body(data, column) if data.size else "[]"
    suffixes = _suffixes(
        data, dtype_name, default_dtype_name, device, requires_grad, grad_fn_name, has_values
    )
    text = _append_suffixes(opening + body, suffixes, column, indent) + ")"
    return "Parameter containing:\n" + text if is_parameter else text


def format_with_spec(
    data: np.ndarray, format_spec: str, *, text: Callable[[], str], class_name: str = "Tensor"
) -> str:
    """What `format(tensor, format_spec)` gives: a 0-d tensor formats as its Python number.

    A parameter never does, whatever its shape, because PyTorch leaves subclasses to `object.__format__`.
    `text` writes the whole tensor and is called only when needed.
    """
    if data.ndim == 0 and class_name == "Tensor":
        return format(data.item(), format_spec)
    if format_spec:
        raise TypeError(f"unsupported format string passed to {class_name}.__format__")
    return text()


# ---- the numbers ----------------------------------------------------------------------------------------


def _write_body(data: np.ndarray, column: int) -> str:
    summarised = data.size > _options.threshold
    cut_axes = tuple(summarised and length > 2 * _options.edgeitems for length in data.shape)
    shown = _select_shown(data, cut_axes)
    if shown.size == 0:
        return "[...]"
    texts, width = _write_cells(shown.reshape(-1))
    cells = np.array(texts, dtype=object).reshape(shown.shape)
    return _lay_out(cells, cut_axes, column, width)


def _select_shown(data: np.ndarray, cut_axes: tuple[bool, ...]) -> np.ndarray:
    """Keep both ends of every cut axis, reading nothing else of `data`."""
    if not any(cut_axes):
        return data
    kept = []
    for length, is_cut in zip(data.shape, cut_axes, strict=True):
        positions = _ends(length, _options.edgeitems) if is_cut else np.arange(length)
        kept.append(positions)
    return data[np.ix_(*kept)]


def _ends(length: int, edgeitems: int) -> np.ndarray:
    first = np.arange(edgeitems)
    return np.concatenate([first, length - edgeitems + first])


def _write_cells(values: np.ndarray) -> tuple[list[str], int]:
    """Write every value, right-aligned; also give the width that line wrapping counts with."""
    kind = values.dtype.kind
    if kind == "c":
        return _write_complex(values)
    if kind in "biu":
        texts = [str(value) for value in values.tolist()]
        width = max(len(text) for text in texts)
    else:
        texts, width = _write_floats(values.astype(np.float64))
    return [text.rjust(width) for text in texts], width


def _write_floats(values: np.ndarray) -> tuple[list[str], int]:
    """Write doubles in one common notation.

    Zeros, infinities and nans take part neither in the choice nor in the width; without any other value
    the width is 1, so that nothing is padded.
    """
    ordinary = np.isfinite(values) & (values != 0)
    write = _choose_notation(values[ordinary])
    texts = [write(value, _options.precision) for value in values.tolist()]
    lengths = [len(text) for text, counts in zip(texts, ordinary.tolist(), strict=True) if counts]
    return texts, max(lengths, default=1)


def _choose_notation(ordinary: np.ndarray) -> Callable[[float, int], str]:
    if ordinary.size == 0:
        return _write_whole
    is_whole = bool(np.all(ordinary == np.ceil(ordinary)))
    is_scientific = _options.sci_mode
    if is_scientific is None:
        is_scientific = _needs_scientific(np.abs(ordinary), is_whole)
    if is_scientific:
        return _write_scientific
    return _write_whole if is_whole else _write_fixed


def _needs_scientific(magnitudes: np.ndarray, is_whole: bool) -> bool:
    largest, smallest = float(magnitudes.max()), float(magnitudes.min())
    if largest / smallest > WIDEST_FIXED_RATIO or largest > LARGEST_FIXED:
        return True
    return not is_whole and smallest < SMALLEST_FIXED


def _write_whole(value: float, precision: int) -> str:
    text = f"{value:.0f}"
    return text + "." if math.isfinite(value) else text


def _write_fixed(value: float, precision: int) -> str:
    return f"{value:.{precision}f}"


def _write_scientific(value: float, precision: int) -> str:
    return f"{value:.{precision}e}"


def _write_complex(values: np.ndarray) -> tuple[list[str], int]:
    """Write real and imaginary parts, each in its own notation; only the real parts are aligned."""
    real_texts, real_width = _write_floats(values.real.astype(np.float64))
    imaginary_texts, imaginary_width = _write_floats(values.imag.astype(np.float64))
    texts = []
    for real, imaginary in zip(real_texts, imaginary_texts, strict=True):
        sign = "" if imaginary.startswith("-") else "+"
        texts.append(real.rjust(real_width) + sign + imaginary + "j")
    return texts, real_width + imaginary_width + 1


# ---- the brackets ---------------------------------------------------------------------------------------


def _lay_out(cells: np.ndarray, cut_axes: tuple[bool, ...], column: int, width: int) -> str:
    """Nest the written cells in brackets; `column` is where the opening bracket stands."""
    if cells.ndim == 0:
        return cells.item()
    if cells.ndim == 1:
        return _lay_out_row(cells, cut_axes[0], column, width)
    blocks = [_lay_out(block, cut_axes[1:], column + 1, width) for block in cells]
    if cut_axes[0]:
        blocks.insert(_options.edgeitems, "...")
    gap = "," + "\n" * (cells.ndim - 1) + " " * (column + 1)
    return "[" + gap.join(blocks) + "]"


def _lay_out_row(cells: np.ndarray, is_cut: bool, column: int, width: int) -> str:
    texts = list(cells)
    if is_cut:
        texts.insert(_options.edgeitems, " ...")
    cell_width = width + len(", ")
    per_line = max(1, math.floor((_options.linewidth - column) / cell_width))
    lines = [", ".join(texts[start : start + per_line]) for start in range(0, len(texts), per_line)]
    gap = ",\n" + " " * (column + 1)
    return "[" + gap.join(lines) + "]"


# ---- what follows the numbers ---------------------------------------------------------------------------


def _suffixes(
    data: np.ndarray,
    dtype_name: str,
    default_dtype_name: str,
    device: str,
    requires_grad: bool,
    grad_fn_name: str | None,
    has_values: bool,
) -> list[str]:
    suffixes = []
    if device != "cpu":
        suffixes.append(f"device='{device}'")
    if not has_values or _hides_shape(data):
        suffixes.append(f"size={data.shape}")
    obvious = has_values and _dtype_is_obvious(data, dtype_name, default_dtype_name)
    if not obvious and dtype_name != default_dtype_name:
        suffixes.append(f"dtype={DTYPE_PREFIX}{dtype_name}")
    if grad_fn_name is not None:
        suffixes.append(f"grad_fn=<{grad_fn_name}>")
    elif requires_grad:
        suffixes.append("requires_grad=True")
    return suffixes


def _hides_shape(data: np.ndarray) -> bool:
    """`[]` says the shape of a 1-d tensor only; `[...]` without edge items says none."""
    if data.size == 0:
        return data.ndim != 1
    return _options.edgeitems == 0


def _dtype_is_obvious(data: np.ndarray, dtype_name: str, default_dtype_name: str) -> bool:
    """Whether a reader, or `tensor(...)` itself, would infer this dtype from the printed numbers."""
    if dtype_name == default_dtype_name:
        return True
    if data.size == 0:
        return False
    default_complex = "complex128" if default_dtype_name == "float64" else "complex64"
    return dtype_name in ("int64", "bool", default_complex)


def _append_suffixes(text: str, suffixes: list[str], column: int, indent: int) -> str:
    """Add each suffix to the last line, or to a new one where it would pass the line width."""
    last_line = text.rfind("\n")
    # PyTorch counts two columns more than the line holds; where lines break depends on it.
    used = len(text) - last_line + 1 + (indent if last_line == -1 else 0)
    for suffix in suffixes:
        if used + len(suffix) + len(", ") > _options.linewidth:
            text += ",\n" + " " * column + suffix
            used = column + len(suffix)
        else:
            text += ", " + suffix
            used += len(suffix) + len(", ")
    return text
