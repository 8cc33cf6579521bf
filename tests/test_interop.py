"""Tensors and the rest of Python: NumPy, DLPack, numbers, lists, pickling and copying."""

from __future__ import annotations

import copy
import math
import pickle
import warnings

import numpy as np
import pytest
import torch

import cleargrad as cg
from tests.oracle import failure, same

LIBRARIES = pytest.mark.parametrize("T", (cg, torch), ids=("cleargrad", "torch"))
DTYPES = (
    "bool",
    "uint8",
    "int8",
    "int16",
    "int32",
    "int64",
    "float16",
    "float32",
    "float64",
    "complex64",
    "complex128",
)


# NumPy -----------------------------------------------------------------------------------------------------


@LIBRARIES
@pytest.mark.parametrize("name", DTYPES)
def test_memory_is_shared_both_ways(T, name):
    array = np.arange(6).reshape(2, 3).astype(name)
    x = T.from_numpy(array)
    assert str(x.dtype) == f"torch.{name}"
    x[0, 1] = 0
    array[1, 2] = 1
    back = x.numpy()
    assert np.shares_memory(back, array)
    assert back.dtype == array.dtype
    np.testing.assert_array_equal(back, array)
    transposed = T.from_numpy(array.T)
    assert transposed.stride() == (1, 3)
    assert np.shares_memory(transposed.numpy(), array)


def test_from_numpy_refusals():
    def run(T):
        return [
            failure(lambda array=array: T.from_numpy(array))
            for array in (
                [1],
                np.float64(1.0),
                np.array(["a"]),
                np.arange(3)[::-1],
                np.arange(3, dtype=">i4"),
                np.array([None]),
                None,
            )
        ]

    same(run)


@LIBRARIES
def test_arrays_of_tensors(T):
    x = T.tensor([1.0, 2.0])
    assert np.shares_memory(np.asarray(x), x.numpy())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch's own __array__ takes no copy=
        assert not np.shares_memory(np.array(x), x.numpy())
    assert np.asarray(x, dtype=np.float64).dtype == np.float64
    assert isinstance(np.asarray(x), np.ndarray)
    assert np.asarray([x, x]).shape == (2, 2)
    assert np.asarray(T.tensor(3.0)).shape == ()
    grad = T.ones(2, requires_grad=True)
    for call in (grad.numpy, lambda: np.asarray(grad), lambda: np.add(grad, grad)):
        with pytest.raises(RuntimeError, match="requires grad"):
            call()
    assert np.shares_memory(grad.numpy(force=True), grad.detach().numpy())


def test_array_without_a_copy():
    x = cg.ones(2)
    assert np.shares_memory(np.array(x, copy=False), x.numpy())
    with pytest.raises(ValueError, match="copy"):
        np.array(x, dtype=np.float64, copy=False)


def test_numpy_functions_of_tensors():
    def run(T):
        x, array = T.tensor([1.0, -4.0]), np.array([1.0, 2.0])
        return (
            np.exp(x),
            np.add(x, x),
            np.multiply(array, x),
            np.add(x, x, out=np.zeros(2)),
            np.maximum.reduce(x),
            np.modf(x),
            np.concatenate([x, x]),
            np.stack([x, x]),
            np.where(array > 1, x, x),
            np.dot(x, x),
        )

    same(run)


def test_truth_values_stay_truth_values():
    """PyTorch makes bytes of them, from the time before it had booleans."""
    assert np.isnan(cg.tensor([1.0, math.nan])).tolist() == [False, True]
    assert np.greater(cg.tensor([1.0, 3.0]), 2).dtype is cg.bool


def test_arithmetic_with_numpy_numbers_and_arrays():
    def run(T):
        x, array = T.tensor([1.0, 2.0]), np.array([3.0, 4.0])
        return (
            x + array,
            x * np.float32(2),
            np.float64(2) * x,
            np.float32(1) + x,
            x - np.int64(1),
            x == array,
            np.float32(1) + T.tensor(1),
            x[np.int64(1)],
            x[np.array([1, 0])],
            x[np.array([True, False])],
            array[T.tensor([1, 0])],
            array[T.tensor([True, False])],
            array[T.tensor(1)],
        )

    same(run)


def test_arrays_on_the_left():
    """PyTorch refuses these; there is one reasonable answer."""
    x, array = cg.tensor([1.0, 2.0]), np.array([3.0, 4.0])
    assert (array + x).tolist() == [4.0, 6.0]
    assert (array - x).tolist() == [2.0, 2.0]
    assert (array > x).tolist() == [True, True]
    assert isinstance(array * x, cg.Tensor)


@LIBRARIES
def test_what_copies_and_what_shares(T):
    array = np.ones(3, np.float32)
    assert np.shares_memory(T.as_tensor(array).numpy(), array)
    assert np.shares_memory(T.asarray(array).numpy(), array)
    assert not np.shares_memory(T.tensor(array).numpy(), array)
    assert not np.shares_memory(T.as_tensor(array, dtype=T.float64).numpy(), array)
    x = T.ones(2)
    assert T.as_tensor(x) is x
    assert T.as_tensor(x, dtype=T.float64).dtype == T.float64


# DLPack ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ("bool", "uint8", "int32", "int64", "float16", "float32", "float64", "complex64")
)
def test_dlpack_both_ways(name):
    ours = cg.from_numpy(np.arange(6).reshape(2, 3).astype(name))
    theirs = torch.from_dlpack(ours)
    assert theirs.data_ptr() == ours.data_ptr()
    theirs[0, 0] = 1
    assert ours.tolist() == theirs.tolist()
    back = cg.from_dlpack(theirs)
    back[1, 1] = 0
    assert ours.tolist() == theirs.tolist() == back.tolist()
    array = np.from_dlpack(ours)
    assert np.shares_memory(array, ours.numpy())
    again = cg.from_dlpack(array)
    again[0, 2] = 0
    assert ours.tolist() == again.tolist()


def test_dlpack_of_strided_and_foreign_tensors():
    ours = cg.arange(6.0).reshape(2, 3).t()
    theirs = torch.from_dlpack(ours)
    assert theirs.stride() == ours.stride() == (1, 3)
    assert cg.from_dlpack(torch.arange(6.0)[1::2]).tolist() == [1.0, 3.0, 5.0]
    imported = cg.from_dlpack(torch.ones(3))
    imported.requires_grad_()
    (imported * 2).sum().backward()
    assert imported.grad.tolist() == [2.0, 2.0, 2.0]


def test_imported_memory_stays_alive():
    imported = cg.from_dlpack(torch.full((1000,), 7.0))
    kept = [torch.zeros(1000) for _ in range(20)]
    assert imported.sum().item() == 7000.0
    assert len(kept) == 20


@LIBRARIES
def test_dlpack_refuses_gradients(T):
    with pytest.raises(BufferError, match="require gradient"):
        T.ones(2, requires_grad=True).__dlpack__()
    assert T.ones(2).__dlpack_device__()[0] == 1


# Numbers ---------------------------------------------------------------------------------------------------


def test_python_numbers():
    def run(T):
        values = [
            T.tensor(2.5),
            T.tensor([3]),
            T.tensor([[True]]),
            T.tensor(1j),
            T.tensor(2 + 0j),
            T.ones(2),
            T.ones(0),
            T.tensor(math.inf),
            T.tensor(1.5, dtype=T.bfloat16),
            T.tensor(200, dtype=T.uint8),
        ]
        readers = (
            float,
            int,
            complex,
            bool,
            lambda x: x.item(),
            lambda x: x.tolist(),
            lambda x: range(300)[x],
            len,
            list,
        )
        return [
            [
                failure(lambda reader=reader, x=x: reader(x))
                for reader in readers
                if not (reader is list and x.ndim)
            ]
            for x in values
        ]

    same(run)


def test_more_of_python():
    def run(T):
        x = T.tensor([2.0, 1.0, 3.0])
        i = T.tensor(2)
        return [
            failure(call)
            for call in (
                lambda: math.sqrt(T.tensor(4.0)),
                lambda: round(T.tensor(2.567), 1),
                lambda: math.floor(T.tensor(2.5)),
                lambda: f"{T.tensor(2.5):.3f}",
                lambda: [1, 2, 3][i],
                lambda: [1] * i,
                lambda: "ab" * i,
                lambda: sum(x),
                lambda: max(x),
                lambda: min(x),
                lambda: [y.item() for y in sorted(x)],
                lambda: any(x),
                lambda: [y.item() for y in x],
                lambda: [*x][1],
                lambda: divmod(T.tensor(7), 2),
                lambda: abs(-x),
                lambda: pow(x, 2),
                lambda: 2**x,
                lambda: x.__delitem__(0),
                lambda: [y.item() for y in reversed(x)],
                lambda: slice(i).indices(5),
                lambda: x[i],
                lambda: x[:i],
                lambda: bytes(i),
            )
        ]

    same(run)


def test_in_and_hash():
    def run(T):
        x = T.tensor([1.0, 2.0])
        return [
            failure(call)
            for call in (
                lambda: 1.0 in x,
                lambda: 5 in x,
                lambda: T.tensor(2.0) in x,
                lambda: T.ones(2) in T.ones(3, 2),
                lambda: "a" in x,
                lambda: None in x,
                lambda: x in [x],
                lambda: x in [T.zeros(2), x],
                lambda: len({x, x, T.ones(2)}),
                lambda: {x: 1}[x],
                lambda: x == None,  # noqa: E711
                lambda: x != "a",
                lambda: x == 1.0,
                lambda: hash(x) == hash(x),
                lambda: hash(x) == hash(x.clone()),
            )
        ]

    same(run)


@pytest.mark.parametrize("other", [None, "a", [1.0, 2.0], object(), {}])
@pytest.mark.parametrize("operator", ["+", "-", "*", "/", "//", "%", "**", "<", "&", "@"])
def test_operators_refuse_foreign_objects(operator, other):
    def run(T):
        x = T.tensor([1.0, 2.0])
        names = {"x": x, "other": other}
        return (
            failure(lambda: eval(f"x {operator} other", names)),
            failure(lambda: eval(f"other {operator} x", names))
            if not (operator == "%" and other == "a")
            else None,
        )

    same(run)


def test_tolist():
    def run(T):
        return [
            T.tensor(3).tolist(),
            T.ones(2, 0, 3).tolist(),
            T.ones(0).tolist(),
            T.tensor([[True, False]]).tolist(),
            T.tensor([1.5], dtype=T.bfloat16).tolist(),
            T.tensor([1.5], dtype=T.float16).tolist(),
            T.arange(4).reshape(2, 2).t().tolist(),
            type(T.tensor([1]).tolist()[0]).__name__,
        ]

    same(run)


# Copying ---------------------------------------------------------------------------------------------------


def test_pickles():
    def run(T):
        grad = T.tensor([1.0, 2.0], requires_grad=True)
        (grad * 3).sum().backward()
        tensors = [
            T.tensor(3),
            T.arange(6.0).reshape(2, 3).t(),
            T.arange(6.0)[2:4],
            T.ones(0, 2),
            T.tensor([1 + 2j]),
            grad,
            grad * 2,
            T.tensor([True]),
            T.tensor([1.5], dtype=T.bfloat16).float(),
        ]
        loaded = [pickle.loads(pickle.dumps(tensor)) for tensor in tensors]
        return loaded, [(x.requires_grad, x.is_leaf, x.stride()) for x in loaded], loaded[5].grad

    same(run)


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_pickle_protocols(protocol):
    x = cg.tensor([1.0, 2.0], dtype=cg.bfloat16)
    loaded = pickle.loads(pickle.dumps(x, protocol))
    assert loaded.dtype is cg.bfloat16
    assert loaded.tolist() == [1.0, 2.0]
    assert pickle.loads(pickle.dumps(cg.float16, protocol)) is cg.float16
    assert pickle.loads(pickle.dumps(cg.device("cpu"), protocol)) == cg.device("cpu")
    assert pickle.loads(pickle.dumps(x.shape, protocol)) == (2,)


def test_loaded_tensors_can_be_trained():
    x = pickle.loads(pickle.dumps(cg.ones(2, requires_grad=True)))
    with cg.no_grad():
        x.add_(1)
    (x * x).sum().backward()
    assert x.grad.tolist() == [4.0, 4.0]


class Weight(cg.Tensor):
    """A subclass such as nn.Parameter."""


def test_subclasses_keep_their_class_and_attributes():
    x = cg.ones(2).as_subclass(Weight).requires_grad_()
    x.label = ["a"]
    for made in (pickle.loads(pickle.dumps(x)), copy.deepcopy(x), copy.copy(x)):
        assert type(made) is Weight
        assert made.requires_grad and made.is_leaf
        assert made.label == ["a"]
    assert copy.deepcopy(x).label is not x.label
    assert copy.copy(x).label is x.label
    (copy.deepcopy(x) * 2).sum().backward()
    assert x.grad is None


def test_deep_copies():
    def run(T):
        x = T.tensor([1.0, 2.0], requires_grad=True)
        (x * 3).sum().backward()
        made = copy.deepcopy(x)
        made.grad.add_(1)
        with T.no_grad():
            made.add_(1)
        shared = T.ones(2)
        first, second = copy.deepcopy([shared, shared])
        base = T.arange(4.0)
        whole, part = copy.deepcopy([base, base[1:3]])
        whole.add_(10)
        part_first, whole_second = copy.deepcopy((base[1:3], base))
        part_first.zero_()
        return (
            x,
            x.grad,
            made,
            made.grad,
            made.is_leaf,
            first is second,
            first is shared,
            base,
            whole,
            part,
            whole_second,
            copy.deepcopy(T.ones(2, 3).t()).stride(),
            failure(lambda: copy.deepcopy(x * 2)),
        )

    same(run)


def test_shallow_copies():
    def run(T):
        x = T.tensor([1.0, 2.0], requires_grad=True)
        other = copy.copy(x)
        plain = T.ones(2)
        same_memory = copy.copy(plain)
        same_memory.add_(1)
        derived = copy.copy(x * 2)
        return (
            other is x,
            other.data_ptr() == x.data_ptr(),
            other.requires_grad,
            other.grad,
            plain,
            derived.is_leaf,
        )

    same(run)


def test_a_model_like_structure_is_copied_once_per_tensor():
    tied = cg.ones(2, requires_grad=True)
    model = {"encoder": tied, "decoder": tied, "list": [tied]}
    made = copy.deepcopy(model)
    assert made["encoder"] is made["decoder"] is made["list"][0]
    assert made["encoder"] is not tied
    loaded = pickle.loads(pickle.dumps(model))
    assert loaded["encoder"] is loaded["decoder"]
