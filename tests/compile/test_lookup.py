"""Products with looked-up rows: the table is multiplied where it has few rows, and numbers stay as they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import cleargrad as cg
from cleargrad import nn
from cleargrad.devices.cpu.programs.program import Program
from cleargrad.schedule.statements import Product
from tests.bits import same_bits
from tests.compile.world import kept_program

TOKENS = np.random.default_rng(0).integers(-5, 5, (6, 8))


def multiply_adds(program: Program) -> int:
    products = [entry for entry in program.entries if isinstance(entry, Product)]
    return sum(entry.left.shape[-1] * int(np.prod(entry.place.shape)) for entry in products)


def checked(function: Callable, leaves: list[Any]) -> Program:
    """The program of a function's result and gradients, which must have the bits of an eager call."""

    def step(places: Any) -> Any:
        out = function(places)
        return [out, *cg.autograd.grad(out.tanh().square().sum(), leaves)]

    places = cg.tensor(TOKENS)
    expected = step(places)
    found, program = kept_program(step, places)
    for one, other in zip(found, expected, strict=True):
        same_bits(one, other)
    return program


def leaf(*shape: int) -> Any:
    return cg.randn(*shape).requires_grad_()


FORMS: dict[str, Callable] = {
    "one after the other": lambda table, weight, i: table[i].reshape(-1, table.shape[1]) @ weight,
    "in another order": lambda table, weight, i: (
        table[i].transpose(0, 1).reshape(-1, table.shape[1]) @ weight
    ),
    "of a layer": lambda table, weight, i: nn.functional.linear(table[i], weight.T, cg.ones(9)),
    "turned for a layer": lambda table, weight, i: nn.functional.linear(
        table[i].transpose(0, 1), weight.T, cg.ones(9)
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_the_product_forward_has_the_rows_of_the_table(form: str) -> None:
    """Those backward have all rows that were looked up: with fewer, sums would round in another order."""
    cg.manual_seed(0)
    table, weight = leaf(5, 7), leaf(7, 9)
    for leaves in ([table, weight], [table], [weight]):
        program = checked(lambda i: FORMS[form](table, weight, i), leaves)
        assert multiply_adds(program) == (5 + len(leaves) * TOKENS.size) * 7 * 9


def test_large_tables_are_looked_up_first() -> None:
    cg.manual_seed(0)
    table, weight = leaf(TOKENS.size // 2 + 1, 7), leaf(7, 9)
    program = checked(lambda i: table[i] @ weight, [table, weight])
    assert multiply_adds(program) == 3 * TOKENS.size * 7 * 9


def test_rows_that_are_needed_otherwise_too() -> None:
    """The gradient of the table has two parts, of which one is no product."""
    cg.manual_seed(0)
    table, weight = leaf(5, 7), leaf(7, 7)

    def function(i: Any) -> Any:
        rows = table[i]
        return rows + rows @ weight

    checked(function, [table, weight])


def test_what_is_done_to_rows_before_the_product_stays() -> None:
    cg.manual_seed(0)
    table, weight = leaf(5, 6), leaf(6, 9)
    narrow = leaf(3, 9)
    checked(lambda i: table[i].relu() @ weight, [table, weight])
    checked(lambda i: table[i].transpose(1, 2).reshape(6, 8, 6) @ weight, [table, weight])
    checked(lambda i: table[i].reshape(6, 16, 3) @ narrow, [table, narrow])


def test_stacks_of_weights_are_multiplied_one_by_one() -> None:
    cg.manual_seed(0)
    table, weights = leaf(5, 7), leaf(6, 7, 4)
    program = checked(lambda i: table[i] @ weights, [table, weights])
    assert multiply_adds(program) == 3 * TOKENS.size * 7 * 4


def test_sums_of_products() -> None:
    """The weight's gradient is one product for each element of the batch."""
    cg.manual_seed(0)
    table, weight = leaf(5, 7), leaf(7, 9)
    program = checked(lambda i: table[i] @ weight, [table, weight])
    assert multiply_adds(program) == (5 + 2 * TOKENS.size) * 7 * 9


def test_places_out_of_range_are_refused_as_ever() -> None:
    cg.manual_seed(0)
    model = nn.Sequential(nn.Embedding(5, 7), nn.Linear(7, 9))
    optimizer = cg.optim.SGD(model.parameters(), lr=0.1)

    @cg.compile
    def step(tokens: Any) -> Any:
        optimizer.zero_grad()
        loss = model(tokens).square().sum()
        loss.backward()
        optimizer.step()
        return loss

    for _ in range(3):
        step(cg.tensor(TOKENS % 5))
    before = [p.detach().clone() for p in model.parameters()]
    bad = TOKENS % 5
    bad[3, 4] = 5
    with pytest.raises(IndexError):
        step(cg.tensor(bad))
    for p, old in zip(model.parameters(), before, strict=True):
        np.testing.assert_array_equal(p.detach().numpy(), old.numpy())


def test_a_character_model_trains_as_in_torch() -> None:
    class Reader:
        def __init__(self, library: Any) -> None:
            table, rnn = library.nn.Embedding(4, 6, padding_idx=0), library.nn.LSTM(6, 5, batch_first=True)
            self.parameters = [*table.parameters(), *rnn.parameters()]
            random = np.random.default_rng(1)
            with library.no_grad():
                for p in self.parameters:
                    p.copy_(library.tensor(random.standard_normal(tuple(p.shape)).astype(np.float32)))
            optimizer = library.optim.SGD(self.parameters, lr=0.05)

            def step(tokens: Any) -> Any:
                optimizer.zero_grad()
                loss = rnn(table(tokens))[0].square().mean()
                loss.backward()
                optimizer.step()
                return loss

            self.step = step

    ours, theirs = Reader(cg), Reader(torch)
    compiled = cg.compile(ours.step)
    for number in range(5):
        tokens = np.random.default_rng(number).integers(4, size=(3, 6))
        found, wanted = compiled(cg.tensor(tokens)), theirs.step(torch.tensor(tokens))
        np.testing.assert_allclose(float(found.detach()), float(wanted.detach()), rtol=1e-5)
    for p, q in zip(ours.parameters, theirs.parameters, strict=True):
        np.testing.assert_allclose(p.detach().numpy(), q.detach().numpy(), rtol=1e-4, atol=1e-6)
