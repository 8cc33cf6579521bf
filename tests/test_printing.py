"""Printed tensors, compared character for character with PyTorch's `repr` on generated arrays."""

import ml_dtypes
import numpy as np
import pytest
import torch
import torch._tensor_str as torch_printing

from cleargrad import printing

SHAPES = [(), (1,), (5,), (23,), (0,), (0, 3), (3, 0), (1, 1), (3, 4), (2, 37), (2, 3, 4), (2, 1, 3, 2)]
LONG_SHAPES = [(1000,), (1001,), (2, 501), (501, 2), (7, 6, 30), (40, 1, 40), (5, 7, 8, 9), (2,) * 10]
INTEGERS = ["uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64"]
FLOATS = ["float16", "bfloat16", "float32", "float64"]
COMPLEX = ["complex64", "complex128"]
OPTIONS = [
    {"precision": 0},
    {"precision": 2},
    {"precision": 10},
    {"sci_mode": True},
    {"sci_mode": False},
    {"sci_mode": True, "precision": 1, "linewidth": 120},
    {"linewidth": 5},
    {"linewidth": 40},
    {"linewidth": 200, "threshold": 2000},
    {"threshold": 0},
    {"threshold": 0, "edgeitems": 0},
    {"threshold": 10, "edgeitems": 1},
    {"threshold": 5, "edgeitems": 2, "linewidth": 30, "sci_mode": True},
    {"edgeitems": 0},
    {"profile": "short"},
    {"profile": "full"},
    {"profile": "full", "precision": 6, "linewidth": 100},
]


@pytest.fixture(autouse=True)
def default_options():
    """Every test starts and ends with both packages at their default options."""
    set_both(profile="default")
    yield
    set_both(profile="default")


def set_both(**options):
    printing.set_printoptions(**options)
    torch.set_printoptions(**options)


def numpy_dtype(name):
    return np.dtype(ml_dtypes.bfloat16) if name == "bfloat16" else np.dtype(name)


def to_torch(data):
    if data.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(data.astype(np.float32)).to(torch.bfloat16)
    return torch.from_numpy(data)


def check(data, **facts):
    facts = {"requires_grad": False, "grad_fn_name": None} | facts
    ours = printing.format_tensor(data, dtype_name=data.dtype.name, **facts)
    assert ours == repr(to_torch(data))


# ---- arrays of many characters --------------------------------------------------------------------------


def normal(random, shape):
    return random.standard_normal(shape)


def whole(random, shape):
    return random.integers(-9, 10, shape).astype(np.float64)


def whole_wide(random, shape):
    return np.round(10.0 ** random.uniform(0, 10, shape))


def small(random, shape):
    return random.standard_normal(shape) * 1e-5


def large(random, shape):
    return random.standard_normal(shape) * 1e4


def mixed_magnitudes(random, shape):
    return random.choice([-1.0, 1.0], shape) * 10.0 ** random.uniform(-10, 10, shape)


def near_the_limits(random, shape):
    limits = [1e-4, 9.9999e-5, 1.00001e-4, 0.1, 99.9, 100.0, 100.1, 0.05, 1e8, 99999999.0, 100000001.0]
    return random.choice(limits[random.integers(0, 8) :], shape)


def with_specials(random, shape):
    values = random.standard_normal(shape) * random.choice([1.0, 1e6])
    specials = random.choice([0.0, -0.0, np.inf, -np.inf, np.nan], shape)
    return np.where(random.random(shape) < 0.5, specials, values)


def only_specials(random, shape):
    return random.choice([0.0, -0.0, np.inf, -np.inf, np.nan], shape)


def whole_with_specials(random, shape):
    return random.choice([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -20.0, 300.0], shape)


FILLERS = [
    normal,
    whole,
    whole_wide,
    small,
    large,
    mixed_magnitudes,
    near_the_limits,
    with_specials,
    only_specials,
    whole_with_specials,
]


def generate(filler, shape, dtype_name, seed=0):
    random = np.random.default_rng(seed)
    values = np.asarray(filler(random, shape))
    dtype = numpy_dtype(dtype_name)
    if dtype.kind == "c":
        imaginary = np.asarray(FILLERS[seed % len(FILLERS)](random, shape))
        pairs = np.stack([values, imaginary], axis=-1).astype(np.empty(0, dtype).real.dtype)
        return pairs.view(dtype)[..., 0]
    with np.errstate(over="ignore"):
        return values.astype(dtype)


def generate_integers(shape, dtype_name, seed=0):
    limits = np.iinfo(dtype_name)
    random = np.random.default_rng(seed)
    low, high = (limits.min, limits.max) if seed % 2 else (max(limits.min, -12), 120)
    return np.asarray(random.integers(low, high, shape, dtype=dtype_name, endpoint=True))


# ---- the golden matrix ----------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", SHAPES + LONG_SHAPES, ids=str)
@pytest.mark.parametrize("dtype_name", FLOATS + COMPLEX)
def test_floats_print_as_in_torch(dtype_name, shape):
    for seed, filler in enumerate(FILLERS):
        check(generate(filler, shape, dtype_name, seed))


@pytest.mark.parametrize("shape", SHAPES + LONG_SHAPES, ids=str)
def test_integers_and_bools_print_as_in_torch(shape):
    for dtype_name in INTEGERS:
        check(generate_integers(shape, dtype_name, seed=0))
        check(generate_integers(shape, dtype_name, seed=1))
    check(np.asarray(generate_integers(shape, "int8", seed=1) > 0))
    check(np.ones(shape, dtype=bool))


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_options_change_the_text_as_in_torch(options):
    set_both(**options)
    for shape in [(), (1,), (9,), (0, 2), (60,), (3, 4), (2, 3, 5), (8, 9, 17)]:
        for seed, filler in enumerate(FILLERS):
            check(generate(filler, shape, "float32", seed))
            check(generate(filler, shape, "complex128", seed))
        check(generate_integers(shape, "int32", seed=1))
        check(np.asarray(generate_integers(shape, "int64") > 5))


@pytest.mark.parametrize("seed", range(60))
def test_random_shapes_print_as_in_torch(seed):
    random = np.random.default_rng(1000 + seed)
    for dtype_name in FLOATS + COMPLEX:
        shape = tuple(random.integers(1, 12, random.integers(0, 5)))
        filler = FILLERS[random.integers(len(FILLERS))]
        check(generate(filler, shape, dtype_name, seed))


@pytest.mark.parametrize(
    "value", [5e-324, 1e-310, 1.7976931348623157e308, -1e300, 0.5, 2.5, 1e23, 123456789.0]
)
def test_extreme_doubles_print_as_in_torch(value):
    check(np.array(value))
    check(np.array([value, 1.0, np.nan]))


def test_views_print_as_in_torch():
    grid = np.arange(12000.0).reshape(100, 120)
    check(grid.T)
    check(grid[5:50:7, 3:20:4])
    check(np.broadcast_to(np.float32(2.5), (50, 60)).copy())


@pytest.mark.parametrize("default", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("shape", [(), (2,), (0,), (0, 2)], ids=str)
def test_the_dtype_is_printed_where_torch_prints_it(shape, default):
    before = torch.get_default_dtype()
    torch.set_default_dtype(getattr(torch, default))
    try:
        for dtype_name in FLOATS + COMPLEX + INTEGERS + ["bool"]:
            check(np.ones(shape, numpy_dtype(dtype_name)), default_dtype_name=default)
    finally:
        torch.set_default_dtype(before)


# ---- suffixes, subclasses, options ----------------------------------------------------------------------


def check_gradient_suffixes(data):
    facts = {"dtype_name": data.dtype.name, "requires_grad": True}
    leaf = to_torch(data).clone().requires_grad_()
    result = leaf.clone()
    parameter = torch.nn.Parameter(leaf.detach())
    name = type(result.grad_fn).__name__
    assert printing.format_tensor(data, grad_fn_name=None, **facts) == repr(leaf)
    assert printing.format_tensor(data, grad_fn_name=name, **facts) == repr(result)
    assert printing.format_tensor(data, grad_fn_name=None, class_name="Parameter", **facts) == repr(parameter)


@pytest.mark.parametrize("shape", [(n,) for n in range(12)] + [(), (2, 9), (3, 0), (30, 40)], ids=str)
@pytest.mark.parametrize("dtype_name", FLOATS + COMPLEX)
def test_gradient_suffixes_and_parameters(dtype_name, shape):
    for linewidth in [20, 66, 72, 80]:
        set_both(linewidth=linewidth)
        check_gradient_suffixes(generate(normal, shape, dtype_name))


def test_subclasses_print_their_own_name():
    class Weights(torch.Tensor):
        pass

    data = generate(normal, (3, 30), "float32")
    ours = printing.format_tensor(
        data, dtype_name="float32", requires_grad=False, grad_fn_name=None, class_name="Weights"
    )
    assert ours == repr(torch.from_numpy(data).as_subclass(Weights))


def test_other_devices_are_named():
    text = printing.format_tensor(
        np.ones(2), dtype_name="float64", requires_grad=True, grad_fn_name=None, device="cuda:0"
    )
    assert text == "tensor([1., 1.], device='cuda:0', dtype=torch.float64, requires_grad=True)"


def test_indent_leaves_room_on_the_left():
    facts = {"dtype_name": "float32", "requires_grad": True, "grad_fn_name": None}
    data = generate(normal, (3, 20), "float32")
    text = printing.format_tensor(data, indent=4, **facts)
    with printing.printoptions(linewidth=76):
        narrower = printing.format_tensor(data, **facts)
    assert text == narrower.replace("\n", "\n    ")


@pytest.mark.parametrize("options", [*OPTIONS, {}, {"profile": "no such profile"}], ids=str)
def test_options_are_kept_as_in_torch(options):
    set_both(sci_mode=True, edgeitems=5)
    set_both(**options)
    assert printing.get_printoptions() == torch_printing.get_printoptions()


def test_printoptions_restores_what_was_set():
    printing.set_printoptions(precision=7, sci_mode=True)
    before = printing.get_printoptions()
    with pytest.raises(ZeroDivisionError), printing.printoptions(precision=2):
        assert printing.get_printoptions()["precision"] == 2
        assert printing.get_printoptions()["sci_mode"] is None
        raise ZeroDivisionError
    assert printing.get_printoptions() == before


# ---- format() -------------------------------------------------------------------------------------------


def format_ours(data, format_spec):
    facts = {"dtype_name": data.dtype.name, "requires_grad": False, "grad_fn_name": None}
    return printing.format_with_spec(data, format_spec, text=lambda: printing.format_tensor(data, **facts))


@pytest.mark.parametrize("format_spec", ["", ".3f", "10.2e", "g", "+.1f"])
@pytest.mark.parametrize("dtype_name", FLOATS + COMPLEX)
def test_a_scalar_formats_as_its_number(dtype_name, format_spec):
    data = np.array(3.14159).astype(numpy_dtype(dtype_name))
    assert format_ours(data, format_spec) == format(to_torch(data), format_spec)


def test_integers_and_bools_format_as_their_numbers():
    assert format_ours(np.array(255), "x") == format(torch.tensor(255), "x") == "ff"
    assert format_ours(np.array(True), "") == format(torch.tensor(True)) == "True"


def test_more_than_a_scalar_refuses_a_format():
    assert format_ours(np.array([1.5]), "") == "tensor([1.5000], dtype=torch.float64)"
    for refused in (lambda: format_ours(np.array([1.5]), ".3f"), lambda: format(torch.ones(1), ".3f")):
        with pytest.raises(TypeError, match=r"unsupported format string passed to Tensor\.__format__"):
            refused()


def test_a_scalar_parameter_formats_as_its_text():
    parameter = torch.nn.Parameter(torch.tensor(1.5))
    ours = printing.format_with_spec(np.array(1.5), "", text=lambda: repr(parameter), class_name="Parameter")
    assert ours == format(parameter)


# ---- large tensors --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "shape", [(10**13,), (4, 10**12), (10**12, 4), (10**6, 10**7), (9, 10**6, 10**6)], ids=str
)
def test_a_huge_tensor_prints_without_being_read(shape):
    """One stored number repeated so often that a copy, or a pass over it, could never end."""
    data = np.broadcast_to(np.float32(1.5), shape)
    text = printing.format_tensor(data, dtype_name="float32", requires_grad=False, grad_fn_name=None)
    assert text == repr(torch.tensor(1.5).expand(shape))
