"""Compiled kernels behind eager calls: the bits of calls without them, in all modes, threads and processes."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable

import numpy as np
import pytest
import torch

import cleargrad
import cleargrad.nn.functional as F
from cleargrad.devices.cpu.native import without_kernels
from cleargrad.devices.cpu.programs import eager, rules

ROWS, COLUMNS = 97, 131  # more than native.LARGE together, and no multiple of a vector


def draw(*shape: int, seed: int = 0, dtype: str = "float32") -> np.ndarray:
    return np.random.default_rng(seed + sum(shape)).standard_normal(shape).astype(dtype)


def run(function: Callable, arrays: list[np.ndarray]) -> list[np.ndarray]:
    """The value and the gradients of all floats."""
    tensors = [cleargrad.tensor(x, requires_grad=x.dtype.kind == "f") for x in arrays]
    out = function(*tensors)
    out.backward(cleargrad.tensor(draw(*out.shape, seed=9, dtype=out.detach().numpy().dtype.name)))
    return [out.detach().numpy()] + [x.grad.numpy() for x in tensors if x.requires_grad]


@pytest.fixture
def used(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of what machine code computed."""
    names: list[str] = []

    def watch(kind: str, name_of: Callable) -> None:
        original = getattr(eager, kind)

        def call(*args):
            result = original(*args)
            if result is not None and result is not False:
                names.append(name_of(args[0]))
            return result

        monkeypatch.setattr(eager, kind, call)

    watch("formula", lambda tree: tree.primitive)
    watch("parts", lambda op: op.name)
    watch("product", lambda x: "product")
    watch("step", lambda optimizer: type(optimizer).__name__)
    return names


TARGETS = np.random.default_rng(1).integers(0, COLUMNS, ROWS)
CASES: dict[str, tuple[Callable, list]] = {
    "softmax": (lambda x: F.softmax(x, -1), [(ROWS, COLUMNS)]),
    "softmax of columns": (lambda x: F.softmax(x, 0), [(ROWS, COLUMNS)]),
    "softmax of a transpose": (lambda x: F.softmax(x.t(), -1), [(ROWS, COLUMNS)]),
    "softmax of an expanded row": (lambda x: F.softmax(x.expand(ROWS, COLUMNS), -1), [(1, COLUMNS)]),
    "softmax of a part": (lambda x: F.softmax(x[:, 3:-2], -1), [(ROWS, COLUMNS + 5)]),
    "log_softmax": (lambda x: F.log_softmax(x, -1), [(ROWS, COLUMNS)]),
    "logsumexp": (lambda x: x.logsumexp(1), [(ROWS, COLUMNS)]),
    "cross_entropy": (lambda x, t: F.cross_entropy(x, t), [(ROWS, COLUMNS), TARGETS]),
    "cross_entropy, some ignored": (
        lambda x, t: F.cross_entropy(x, t, ignore_index=3, reduction="sum"),
        [(ROWS, COLUMNS), TARGETS],
    ),
    "cross_entropy, weighted": (
        lambda x, t, w: F.cross_entropy(x, t, w.detach().abs()) + w.sum() * 0,
        [(ROWS, COLUMNS), TARGETS, (COLUMNS,)],
    ),
    "layer_norm": (
        lambda x, w, b: F.layer_norm(x, (COLUMNS,), w, b),
        [(ROWS, COLUMNS), (COLUMNS,), (COLUMNS,)],
    ),
    "rms_norm": (lambda x, w: F.rms_norm(x, (COLUMNS,), w), [(ROWS, COLUMNS), (COLUMNS,)]),
    "batch_norm": (
        lambda x, w, b: F.batch_norm(x, None, None, w, b, True),
        [(8, 6, 17, 13), (6,), (6,)],
    ),
    "group_norm": (lambda x, w, b: F.group_norm(x, 3, w, b), [(8, 6, 17, 13), (6,), (6,)]),
    "attention": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        [(3, 4, 33, 24), (3, 4, 33, 24), (3, 4, 33, 24)],
    ),
    "embedding": (
        lambda i, w: F.embedding(i, w),
        [np.random.default_rng(0).integers(0, 50, (16, 9)), (50, 67)],
    ),
    "product": (cleargrad.matmul, [(ROWS, COLUMNS), (COLUMNS, 77)]),
    "product of transposes": (lambda x, y: x.t() @ y.t(), [(COLUMNS, ROWS), (77, COLUMNS)]),
    "product of every second": (lambda x, y: x[::2, ::2] @ y[::2], [(ROWS, COLUMNS), (COLUMNS, 77)]),
    "stacks of products": (cleargrad.matmul, [(3, ROWS, 41), (3, 41, 77)]),
    "linear": (F.linear, [(ROWS, COLUMNS), (77, COLUMNS), (77,)]),
    "sum of products": (lambda x, y: (x @ y).sum(0), [(ROWS, COLUMNS), (COLUMNS, 77)]),
    "mse_loss": (F.mse_loss, [(ROWS, COLUMNS), (ROWS, COLUMNS)]),
    "variance": (lambda x: x.var(0), [(ROWS, COLUMNS)]),
    "norm": (lambda x: x.norm(dim=1), [(ROWS, COLUMNS)]),
    "distances": (cleargrad.cdist, [(ROWS, COLUMNS), (77, COLUMNS)]),
    "gelu": (F.gelu, [(ROWS, COLUMNS)]),
    "gelu by tanh": (lambda x: F.gelu(x, approximate="tanh"), [(ROWS, COLUMNS)]),
    "silu": (F.silu, [(ROWS, COLUMNS)]),
    "exp": (cleargrad.exp, [(ROWS, COLUMNS)]),
    "log": (lambda x: (x * x + 0.1).log(), [(ROWS, COLUMNS)]),
    "tanh": (cleargrad.tanh, [(ROWS, COLUMNS)]),
    "tanh of a transpose": (lambda x: x.t().tanh(), [(ROWS, COLUMNS)]),
    "sigmoid": (cleargrad.sigmoid, [(ROWS, COLUMNS)]),
    "power": (lambda x: (x * x + 0.1) ** 2.5, [(ROWS, COLUMNS)]),
    "leaky_relu": (lambda x: F.leaky_relu(x, 0.1), [(4 * ROWS, COLUMNS)]),
    "relu": (F.relu, [(4 * ROWS, COLUMNS)]),
    "where": (lambda x, y: cleargrad.where(x > 0, x, y), [(4 * ROWS, COLUMNS), (4 * ROWS, COLUMNS)]),
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients_are_those_without_kernels(name: str, dtype: str, used: list[str]):
    function, shapes = CASES[name]
    arrays = [x if isinstance(x, np.ndarray) else draw(*x, dtype=dtype) for x in shapes]
    ours = run(function, arrays)
    assert used, "no machine code took part"
    with without_kernels():
        count = len(used)
        theirs = run(function, arrays)
        assert len(used) == count
    for mine, other in zip(ours, theirs, strict=True):
        assert mine.dtype == other.dtype
        np.testing.assert_array_equal(mine, other)


@pytest.mark.parametrize("lengths", [(9, 9, 9), (9, 7, 2)])
@pytest.mark.parametrize("options", [{}, {"bidirectional": True}, {"num_layers": 2, "proj_size": 5}])
def test_lstm_is_that_of_pytorch(lengths: tuple, options: dict):
    ours, theirs = cleargrad.nn.LSTM(11, 131, **options), torch.nn.LSTM(11, 131, **options)
    ours.load_state_dict({name: cleargrad.tensor(x.numpy()) for name, x in theirs.state_dict().items()})
    found = []
    for library, layer in ((cleargrad, ours), (torch, theirs)):
        x = library.tensor(draw(9, 3, 11), requires_grad=True)
        packed = library.nn.utils.rnn.pack_padded_sequence(x, lengths)
        out, (h, c) = layer(packed)
        ((out.data * out.data).sum() + h.sum() + (c * c).sum()).backward()
        values = [out.data, h, c, x.grad, *[p.grad for p in layer.parameters()]]
        found.append([value.detach().numpy() for value in values])
    for mine, other in zip(*found, strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-3, atol=3e-5)


def test_not_a_number_and_infinities_pass_through_as_in_pytorch():
    x = draw(ROWS, COLUMNS)
    x[3, 5], x[4, 6], x[5, 7] = np.nan, np.inf, -np.inf
    x[6] = -np.inf
    ours, theirs = cleargrad.tensor(x), torch.tensor(x)
    for name in ("exp", "tanh", "sigmoid", "relu", "erf", "log1p", "expm1"):
        value = getattr(cleargrad, name)(ours).numpy()
        np.testing.assert_allclose(value, getattr(torch, name)(theirs).numpy(), rtol=2e-6, err_msg=name)
    np.testing.assert_allclose(
        F.softmax(ours, -1).numpy(), torch.softmax(theirs, -1).numpy(), rtol=2e-6, atol=1e-8
    )


def test_small_arrays_have_a_program_when_they_come_again(used: list[str]):
    def steps(count: int) -> list[list[np.ndarray]]:
        return [run(lambda x: F.softmax(x, -1).exp(), [draw(7, 19)]) for _ in range(count)]

    early = steps(2)
    assert not used
    late = steps(2 * eager.OFTEN)
    assert {"softmax", "softmax_backward"} <= {name.strip("_") for name in used}
    for values in early + late:
        for value, first in zip(values, early[0], strict=True):
            np.testing.assert_array_equal(value, first)


def test_integers_and_narrow_floats_stay_with_numpy(used: list[str]):
    x = cleargrad.tensor(draw(ROWS, COLUMNS)).bfloat16()
    assert F.softmax(x, -1).dtype is cleargrad.bfloat16
    assert cleargrad.arange(40000).exp().dtype is cleargrad.float32
    assert "softmax" not in used


def test_errors_stay_the_same():
    x, target = cleargrad.randn(ROWS, COLUMNS), cleargrad.zeros(ROWS, dtype=cleargrad.int64)
    for wrong in (COLUMNS, -1):
        target[5] = wrong
        with pytest.raises(IndexError, match=f"Target {wrong} is out of bounds"):
            F.cross_entropy(x, target)
    with pytest.raises(IndexError):
        F.softmax(x, 2)
    with pytest.raises(RuntimeError):
        F.layer_norm(x, (COLUMNS + 1,))


def test_programs_are_kept_by_layout():
    eager._programs.clear()  # tests before this one may have filled it
    x = cleargrad.randn(ROWS, COLUMNS + 1)
    F.softmax(x, -1).numpy()
    count = len(eager._programs)
    F.softmax(x + 1, -1).numpy()
    assert len(eager._programs) == count
    F.softmax(cleargrad.randn(ROWS + 1, COLUMNS + 1), -1).numpy()
    F.softmax(x, 0).numpy()
    assert len(eager._programs) == count + 2


def test_memory_of_programs_is_bounded(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(eager._programs, "most", 3)
    for extra in range(6):
        F.log_softmax(cleargrad.randn(ROWS + extra, COLUMNS), -1).numpy()
    assert len(eager._programs) <= 3


def test_operands_are_not_kept_alive():
    class Watched(np.ndarray):
        pass

    data = np.zeros((ROWS, COLUMNS), np.float32).view(Watched)
    alive = weakref.ref(data)
    eager.parts(cleargrad.ops.op.OPS["softmax"], (data,), {"dim": 1})
    del data
    assert alive() is None


def test_inference_no_grad_and_autocast():
    x = cleargrad.randn(ROWS, COLUMNS, requires_grad=True)
    with cleargrad.inference_mode():
        out = F.softmax(x, -1)
        assert out.is_inference() and not out.requires_grad
    with cleargrad.no_grad():
        assert not F.gelu(x).requires_grad
    with cleargrad.autocast("cpu"):
        assert F.softmax(x, -1).dtype is cleargrad.float32


def test_a_changed_input_is_still_noticed():
    x = cleargrad.randn(ROWS, COLUMNS, requires_grad=True)
    out = (x * 1).tanh()
    out.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


def test_gradients_of_gradients():
    x = cleargrad.tensor(draw(ROWS, COLUMNS), requires_grad=True)
    y = torch.tensor(draw(ROWS, COLUMNS), requires_grad=True)

    def twice(library, x):
        value = library.nn.functional.softmax(x, -1).pow(2).sum() + library.tanh(x).sum()
        (first,) = library.autograd.grad(value, x, create_graph=True)
        return library.autograd.grad(first.pow(2).sum(), x)[0].numpy()

    np.testing.assert_allclose(twice(cleargrad, x), twice(torch, y), rtol=1e-4, atol=1e-6)


# Threads and processes -------------------------------------------------------------------------------------


def test_threads_get_their_own_results():
    inputs = [cleargrad.tensor(draw(ROWS, COLUMNS, seed=k)) for k in range(4)]
    with without_kernels():
        wanted = [F.layer_norm(x, (COLUMNS,)).exp().numpy() for x in inputs]
    wrong = []

    def work(number: int) -> None:
        for _ in range(20):
            value = F.layer_norm(inputs[number], (COLUMNS,)).exp().numpy()
            if not np.array_equal(value, wanted[number]):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.skipif(
    not hasattr(os, "fork"), reason="a forked child is the subject, and this system cannot fork"
)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_computes_too():
    x = cleargrad.tensor(draw(8 * ROWS, 8 * COLUMNS))
    wanted = F.softmax(x, -1).numpy()
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(write, pickle.dumps(float(np.abs(F.softmax(x, -1).numpy() - wanted).max())))
        finally:
            os._exit(0)
    os.close(write)
    os.waitpid(child, 0)
    assert pickle.loads(os.read(read, 100)) == 0


def test_importing_loads_no_llvm_and_small_programs_no_compiler():
    program = (
        "import sys, cleargrad as c\n"
        "model = c.nn.Sequential(c.nn.Linear(10, 20), c.nn.GELU(), c.nn.Linear(20, 2))\n"
        "optimizer = c.optim.Adam(model.parameters())\n"
        "x = c.randn(4, 10)\n"
        "print((x + 1).relu()[0])\n"
        "assert 'llvmlite' not in sys.modules and 'cleargrad.compile' not in sys.modules\n"
        "model(x).exp().sum().backward(); optimizer.step()\n"
        "assert 'cleargrad.compile' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_without_llvm_numpy_computes():
    program = (
        "import sys; sys.modules['llvmlite'] = sys.modules['llvmlite.binding'] = None\n"
        "import cleargrad as c\n"
        "for rows in (4, 97, 97):\n"
        "    x = c.randn(rows, 131, requires_grad=True)\n"
        "    weight = c.randn(131, 131, requires_grad=True)\n"
        "    (c.nn.functional.layer_norm(x, (131,)) @ weight).softmax(-1).max(0).values.sum().backward()\n"
        "    assert x.grad.abs().max() > 0 and weight.grad.abs().max() > 0\n"
        "    assert c.allclose(x.softmax(-1).sum(-1), c.ones(rows))\n"
        "    assert c.allclose(x.detach().exp().log(), x, atol=1e-5)\n"
        "    close = c.allclose(x.double() @ weight.double(), (x @ weight).double(), atol=1e-3)\n"
        "    assert close and c.nn.functional.scaled_dot_product_attention(x, x, x).isfinite().all()\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


# Optimizers ------------------------------------------------------------------------------------------------

SHAPES = [(90, 37), (37,), (81, 64), (), (5, 3, 2)]
OPTIMIZERS = [
    ("SGD", {}),
    ("SGD", {"momentum": 0.9}),
    ("SGD", {"momentum": 0.9, "weight_decay": 0.01, "nesterov": True, "maximize": True}),
    ("Adam", {}),
    ("Adam", {"amsgrad": True, "weight_decay": 0.1}),
    ("AdamW", {}),
    ("NAdam", {}),
    ("RAdam", {}),
    ("Adamax", {}),
    ("Adagrad", {}),
    ("RMSprop", {"centered": True, "momentum": 0.5}),
    ("Adadelta", {}),
    ("Rprop", {}),
    ("ASGD", {}),
]


def prepared(library, name: str, options: dict, shapes=SHAPES):
    parameters = [library.tensor(draw(*shape, seed=k), requires_grad=True) for k, shape in enumerate(shapes)]
    return parameters, getattr(library.optim, name)(parameters, **options)


def give_gradients(library, parameters, step: int) -> None:
    for k, p in enumerate(parameters):
        p.grad = library.tensor(draw(*p.shape, seed=100 * step + k))


@pytest.mark.parametrize(
    ("name", "options"), OPTIMIZERS, ids=lambda x: x if isinstance(x, str) else ",".join(x)
)
def test_steps_are_those_of_pytorch(name: str, options: dict, used: list[str]):
    ours, optimizer = prepared(cleargrad, name, options)
    theirs, reference = prepared(torch, name, options)
    for step in range(8):
        for each, parameters, library in ((optimizer, ours, cleargrad), (reference, theirs, torch)):
            each.param_groups[0]["lr"] = 0.01 * (step + 1)
            give_gradients(library, parameters, step)
            each.step()
    assert used or name == "ASGD"
    for mine, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(mine.detach().numpy(), other.detach().numpy(), rtol=2e-5, atol=2e-5)
    for p, q in zip(ours, theirs, strict=True):
        for key, kept in reference.state[q].items():
            np.testing.assert_allclose(
                optimizer.state[p][key].numpy(), kept.numpy(), rtol=2e-4, atol=2e-5, err_msg=key
            )


def test_a_new_learning_rate_compiles_nothing():
    parameters, optimizer = prepared(cleargrad, "Adam", {})
    give_gradients(cleargrad, parameters, 0)
    optimizer.step()
    templates = len(rules._templates)
    for step in range(1, 5):
        optimizer.param_groups[0]["lr"] = 0.1 / step
        optimizer.param_groups[0]["betas"] = (0.9 - 0.1 * step, 0.99)
        optimizer.param_groups[0]["a note of the user's"] = step
        optimizer.step()
    assert len(rules._templates) == templates


def test_state_that_was_loaded_and_memory_that_was_exchanged_are_found():
    ours, optimizer = prepared(cleargrad, "Adam", {})
    theirs, reference = prepared(torch, "Adam", {})
    for step in range(6):
        for parameters, library in ((ours, cleargrad), (theirs, torch)):
            give_gradients(library, parameters, step)
        optimizer.step(), reference.step()
        if step == 2:
            optimizer.load_state_dict(pickle.loads(pickle.dumps(optimizer.state_dict())))
            ours[0].data = ours[0].data.clone()
            ours[1].grad = None
            theirs[1].grad = None
    for mine, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(mine.detach().numpy(), other.detach().numpy(), rtol=2e-5, atol=2e-6)


def test_gradients_of_any_layout():
    (p, *_), optimizer = prepared(cleargrad, "SGD", {"lr": 1.0}, [(90, 137)])
    before = p.detach().numpy().copy()
    p.grad = cleargrad.tensor(draw(137, 90)).t()
    optimizer.step()
    np.testing.assert_allclose(p.detach().numpy(), before - draw(137, 90).T, rtol=1e-6, atol=1e-6)


def test_a_step_is_a_write_that_autograd_sees():
    (p, *_), optimizer = prepared(cleargrad, "SGD", {}, [(90, 137)])
    loss = (p * p).sum()
    p.grad = cleargrad.ones_like(p)
    optimizer.step()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_parameters_that_share_memory_are_updated_one_after_the_other():
    memory = cleargrad.tensor(draw(90, 137))
    parameters = [memory.view(-1)[:10000].requires_grad_(), memory.view(-1)[5000:].requires_grad_()]
    for p in parameters:
        p.grad = cleargrad.ones_like(p)
    cleargrad.optim.SGD(parameters, lr=1.0).step()
    change = draw(90, 137).reshape(-1) - memory.numpy().reshape(-1)
    np.testing.assert_allclose(change, 1 + (np.arange(90 * 137) // 5000 == 1), rtol=1e-5)


def test_an_optimizer_is_not_kept_alive():
    parameters, optimizer = prepared(cleargrad, "Adam", {})
    give_gradients(cleargrad, parameters, 0)
    optimizer.step()
    alive = weakref.ref(optimizer)
    del optimizer
    import gc

    gc.collect()
    assert alive() is None
