"""Bad calls: PyTorch's type of exception, our layout, and nothing half done.

The first line of a message is `op: rule in words`; the facts follow one per line; the last says where in the
user's program it happened.
"""

from __future__ import annotations

import math
import re

import pytest
import torch

import cleargrad as cg
from cleargrad.core.mode import settle
from tests.oracle import Failure

BAD_CALLS = {
    # Shapes
    "add": lambda T: T.ones(2, 3) + T.ones(4),
    "mul broadcast": lambda T: T.ones(2, 3) * T.ones(3, 2),
    "matmul": lambda T: T.ones(2, 3) @ T.ones(2, 3),
    "matmul 0-d": lambda T: T.ones(()) @ T.ones(3),
    "mm": lambda T: T.mm(T.ones(2, 3), T.ones(3)),
    "bmm": lambda T: T.bmm(T.ones(2, 3, 4), T.ones(3, 4, 5)),
    "dot": lambda T: T.dot(T.ones(2), T.ones(3)),
    "linear": lambda T: T.nn.functional.linear(T.ones(2, 3), T.ones(4, 5)),
    "view": lambda T: T.ones(6).view(4, 2),
    "view of strided": lambda T: T.ones(2, 3).t().view(6),
    "reshape": lambda T: T.ones(6).reshape(4, -1),
    "two unknown sizes": lambda T: T.ones(6).reshape(-1, -1),
    "negative size": lambda T: T.ones(-1),
    "cat": lambda T: T.cat([T.ones(2, 3), T.ones(2, 4)]),
    "cat of nothing": lambda T: T.cat([]),
    "stack": lambda T: T.stack([T.ones(2), T.ones(3)]),
    "stack of nothing": lambda T: T.stack([]),
    "expand": lambda T: T.ones(2, 3).expand(2, 4),
    "expand too short": lambda T: T.ones(2, 3).expand(3),
    "permute": lambda T: T.ones(2, 3).permute(0, 0),
    "permute too few": lambda T: T.ones(2, 3).permute(0),
    "split sizes": lambda T: T.ones(5).split([2, 2]),
    "chunk": lambda T: T.ones(5).chunk(0),
    "where": lambda T: T.where(T.tensor([True, False]), T.ones(3), T.ones(2)),
    "conv2d": lambda T: T.nn.functional.conv2d(T.ones(1, 3, 4, 4), T.ones(2, 4, 3, 3)),
    "conv2d kernel": lambda T: T.nn.functional.conv2d(T.ones(1, 1, 2, 2), T.ones(1, 1, 3, 3)),
    "cross_entropy": lambda T: T.nn.functional.cross_entropy(T.ones(3, 4), T.zeros(2, dtype=T.int64)),
    "layer_norm": lambda T: T.nn.functional.layer_norm(T.ones(2, 3), (4,)),
    "outer": lambda T: T.outer(T.ones(2, 2), T.ones(2)),
    "einsum": lambda T: T.einsum("ij,jk->ik", T.ones(2, 3), T.ones(2, 3)),
    "as_strided": lambda T: T.ones(3).as_strided((2, 2), (2, 1)),
    # Dimensions and indices
    "sum": lambda T: T.ones(2, 3).sum(2),
    "sum twice": lambda T: T.ones(2, 3).sum((0, 0)),
    "softmax": lambda T: T.softmax(T.ones(2, 3), 5),
    "transpose": lambda T: T.ones(2, 3).transpose(0, 2),
    "squeeze": lambda T: T.ones(2, 3).squeeze(-3),
    "unsqueeze": lambda T: T.ones(2, 3).unsqueeze(4),
    "index": lambda T: T.ones(2, 3)[2],
    "index too deep": lambda T: T.ones(2, 3)[0, 0, 0],
    "index 0-d": lambda T: T.ones(())[0],
    "index by float": lambda T: T.ones(2)[1.5],
    "index by text": lambda T: T.ones(2)["a"],
    "index by float tensor": lambda T: T.ones(2)[T.tensor([0.0])],
    "list of indices": lambda T: T.ones(2)[[0, 5]],
    "mask": lambda T: T.ones(2, 3)[T.tensor([True, False, True])],
    "step": lambda T: T.ones(4)[::-1],
    "index_select": lambda T: T.index_select(T.ones(3), 0, T.tensor([3])),
    "gather": lambda T: T.gather(T.ones(2, 2), 1, T.tensor([[2]])),
    "gather dtype": lambda T: T.gather(T.ones(2, 2), 1, T.tensor([[0.0]])),
    "take": lambda T: T.ones(3).take(T.tensor([5])),
    "embedding": lambda T: T.nn.functional.embedding(T.tensor([4]), T.ones(3, 2)),
    "narrow": lambda T: T.ones(3).narrow(0, 2, 2),
    "max of nothing": lambda T: T.ones(0).max(),
    "argmax of nothing": lambda T: T.ones(0).argmax(),
    "topk": lambda T: T.ones(3).topk(4),
    # Types
    "add none": lambda T: T.add(T.ones(2), None),
    "exp none": lambda T: T.exp(None),
    "cat none": lambda T: T.cat([T.ones(2), None]),
    "stack number": lambda T: T.stack([1, 2]),
    "matmul text": lambda T: T.matmul(T.ones(2, 2), "a"),
    "dtype": lambda T: T.ones(2, dtype="float32"),
    "dtype number": lambda T: T.zeros(2, dtype=3),
    "sub bool": lambda T: T.tensor([True]) - T.tensor([True]),
    "neg bool": lambda T: -T.tensor([True]),
    "mean of integers": lambda T: T.arange(3).mean(),
    "bitwise float": lambda T: T.ones(2) & T.ones(2),
    "complex order": lambda T: T.tensor([1j]) < T.tensor([2j]),
    "matmul dtypes": lambda T: T.ones(2, 2) @ T.ones(2, 2, dtype=T.float64),
    "requires grad of integers": lambda T: T.ones(2, dtype=T.int32, requires_grad=True),
    "set default dtype": lambda T: T.set_default_dtype(T.int32),
    "cross_entropy dtype": lambda T: T.nn.functional.cross_entropy(T.ones(2, 3), T.zeros(2)),
    # Data
    "ragged": lambda T: T.tensor([[1, 2], [3]]),
    "text": lambda T: T.tensor("a"),
    "list of text": lambda T: T.tensor(["a", "b"]),
    "none in a list": lambda T: T.tensor([1, None]),
    "none": lambda T: T.tensor(None),
    "dictionary": lambda T: T.tensor({"a": 1}),
    "too large": lambda T: T.tensor(2**70),
    "too large for int8": lambda T: T.tensor([300], dtype=T.int8),
    "huge": lambda T: T.ones(2**60),
    "huge repeat": lambda T: T.ones(2).repeat(2**58),
    "arange step": lambda T: T.arange(0, 1, 0),
    "arange direction": lambda T: T.arange(1, 0, 1),
    "arange nan": lambda T: T.arange(0, math.nan),
    "linspace": lambda T: T.linspace(0, 1, -1),
    "multinomial nan": lambda T: T.multinomial(T.tensor([math.nan, 1.0]), 1),
    "multinomial negative": lambda T: T.multinomial(T.tensor([-1.0, 1.0]), 1),
    "bernoulli": lambda T: T.bernoulli(T.tensor([2.0])),
    "randint": lambda T: T.randint(3, 3, (2,)),
    "dropout": lambda T: T.nn.functional.dropout(T.ones(2), 1.5),
    "item": lambda T: T.ones(2).item(),
    "bool": lambda T: bool(T.ones(2)),
    "inverse": lambda T: T.linalg.inv(T.zeros(2, 2)),
    "cholesky": lambda T: T.linalg.cholesky(-T.eye(2)),
    # Devices
    "unknown device": lambda T: T.ones(2, device="nowhere"),
    "device number": lambda T: T.device("cpu:x"),
    "device of nothing": lambda T: T.device(None),
    "to": lambda T: T.ones(2).to("nowhere"),
    # Gradients
    "backward": lambda T: T.ones(2).sum().backward(),
    "not a scalar": lambda T: (T.ones(2, requires_grad=True) * 2).backward(),
    "leaf": lambda T: T.ones(2, requires_grad=True).add_(1),
    "numpy": lambda T: T.ones(2, requires_grad=True).numpy(),
    "hook": lambda T: T.ones(2).register_hook(print),
    "retain_grad": lambda T: T.ones(2).retain_grad(),
    "out": lambda T: T.exp(T.ones(2, requires_grad=True), out=T.ones(2)),
    "out dtype": lambda T: T.exp(T.ones(2), out=T.ones(2, dtype=T.int64)),
    "in place dtype": lambda T: T.arange(3).add_(0.5),
    "in place shape": lambda T: T.ones(2).add_(T.ones(2, 2)),
}


def raised(call):
    try:
        result = call()
        settle()
    except Exception as exception:
        return exception
    pytest.fail(f"nothing was raised; the result is {result!r}")


@pytest.mark.parametrize("name", BAD_CALLS)
def test_type_of_the_exception(name):
    theirs, ours = raised(lambda: BAD_CALLS[name](torch)), raised(lambda: BAD_CALLS[name](cg))
    assert Failure(ours) == Failure(theirs), (
        f"{type(ours).__name__} instead of {type(theirs).__name__}: {ours}"
    )


@pytest.mark.parametrize("name", BAD_CALLS)
def test_layout_of_the_message(name):
    lines = str(raised(lambda: BAD_CALLS[name](cg))).splitlines()
    assert re.match(r"[\w.]+: \S", lines[0]), lines[0]
    assert len(lines) > 1
    assert re.match(r" +at +\S*test_errors\.py:\d+ in ", lines[-1]), lines[-1]
    assert all(re.match(r"  \w[\w ]*  +\S", line) for line in lines[1:]), lines
    assert not re.search(r"site-packages|src/cleargrad", "\n".join(lines))


def test_cuda_says_what_to_do():
    for call in (
        lambda: cg.ones(2, device="cuda"),
        lambda: cg.ones(2).cuda(),
        lambda: cg.ones(2).to("cuda:0"),
    ):
        failure = raised(call)
        assert isinstance(failure, AssertionError)
        assert "not compiled with CUDA" in str(failure)
        assert "fix" in str(failure)
    assert cg.device("cuda", 0) == cg.device("cuda:0")
    assert cg.ones(2, device="cpu").device == cg.device("cpu")


def test_an_error_in_a_function_names_the_line_of_its_caller():
    def layer(x, weight):
        return x @ weight  # the guilty line

    failure = raised(lambda: layer(cg.ones(2, 3), cg.ones(4, 5)))
    assert "the guilty line" in str(failure)
    assert "(2, 3) float32" in str(failure)
    assert "(4, 5) float32" in str(failure)


WRITES = {
    "index": lambda x: x.__setitem__(slice(5, 6), cg.ones(3)),
    "shape": lambda x: x.__setitem__(0, cg.ones(5)),
    "list": lambda x: x.__setitem__([0, 9], 1.0),
    "mask": lambda x: x.__setitem__(cg.tensor([True]), 1.0),
    "text": lambda x: x.__setitem__(0, "a"),
    "add_": lambda x: x.add_(cg.ones(4)),
    "copy_": lambda x: x.copy_(cg.ones(4)),
    "fill_": lambda x: x.fill_(cg.ones(2)),
    "scatter_": lambda x: x.scatter_(0, cg.tensor([[0, 9]]), 1.0),
    "index_add_": lambda x: x.index_add_(0, cg.tensor([0, 9]), cg.ones(2, 2)),
    "index_copy_": lambda x: x.index_copy_(0, cg.tensor([0, 9]), cg.ones(2, 2)),
    "index_fill_": lambda x: x.index_fill_(0, cg.tensor([0, 9]), 1.0),
    "masked_fill_": lambda x: x.masked_fill_(cg.tensor([True, False, True]), 1.0),
    "masked_scatter_": lambda x: x.masked_scatter_(cg.ones(2, 2).bool(), cg.ones(1)),
    "put_": lambda x: x.put_(cg.tensor([0, 9]), cg.ones(2)),
    "out": lambda x: cg.add(cg.ones(2), cg.ones(3), out=x),
    "bernoulli_": lambda x: x.bernoulli_(2.0),
    "uniform_": lambda x: x.uniform_(1.0, 0.0),
    "normal_": lambda x: x.normal_(0.0, -1.0),
    "clamp_": lambda x: x.clamp_(),
    "resize": lambda x: x.view(5),
    "data": lambda x: setattr(x, "data", 1.0),
    "grad": lambda x: setattr(x, "grad", cg.ones(5)),
}


@pytest.mark.parametrize("name", WRITES)
def test_nothing_is_half_written(name):
    x = cg.zeros(2, 2)
    before = cg.get_rng_state().tolist()
    raised(lambda: WRITES[name](x))
    assert x.tolist() == [[0.0, 0.0], [0.0, 0.0]]
    assert x.grad is None
    assert cg.get_rng_state().tolist() == before


@pytest.mark.eager  # a write that waits is counted at its line, and may fail after it
@pytest.mark.parametrize("name", WRITES)
def test_failed_writes_are_not_counted(name):
    x = cg.zeros(2, 2)
    raised(lambda: WRITES[name](x))
    assert x._version == 0
