"""Tensors made from data that changes."""

from __future__ import annotations

import numpy as np

from tests.compile.state.common import program, row


@program("made from data")
def tensor_of_a_list(torch, wrap):
    xs = [1.0, 2.0, 3.0, 4.0]
    f, out = wrap(lambda x: x * torch.tensor(xs)), []
    for i in range(7):
        out.append(f(row(torch)))
        xs[i % 4] = -float(i)
    return out


@program("made from data")
def tensor_of_a_list_that_grows(torch, wrap):
    losses = []

    def f(x):
        losses.append(x.mean().item())
        kept = torch.tensor(losses)
        return kept.mean(), kept

    f = wrap(f)
    return [f(row(torch, start=float(i * i))) for i in range(7)]


@program("made from data")
def tensor_of_an_array_is_a_copy(torch, wrap):
    data = np.ones(4, dtype=np.float32)
    f, out = wrap(lambda: torch.tensor(data) * 2), []
    for i in range(7):
        out.append(f())
        data += i
    return out, data.tolist()


@program("made from data")
def as_tensor_shares_memory(torch, wrap):
    """The array changes after the call: the tensor shows it, as does its view."""
    data = np.ones(4, dtype=np.float32)

    def f():
        t = torch.as_tensor(data)
        return t, t[1:], t * 2

    f, out = wrap(f), []
    for i in range(7):
        t, tail, doubled = f()
        data[i % 4] += 10
        out.append((t.clone(), tail.clone(), doubled))
    return out


@program("made from data")
def from_numpy_written_inside(torch, wrap):
    data = np.zeros(4, dtype=np.float32)

    def f(x):
        t = torch.from_numpy(data)
        t += x
        data[0] = -1.0
        return t.sum()

    f = wrap(f)
    out = [(f(row(torch)), data.tolist()) for _ in range(5)]
    data = np.full(4, 100.0, dtype=np.float32)
    return out, [(f(row(torch)), data.tolist()) for _ in range(2)]


@program("made from data")
def numpy_view_of_a_tensor(torch, wrap):
    x = torch.zeros(4)
    shown = x.numpy()

    def f():
        before = float(shown.sum())
        x.add_(1)
        return before, float(shown.sum()), x * 2

    f, out = wrap(f), []
    for i in range(7):
        out.append(f())
        if i > 2:
            shown[i % 4] = 50.0
    return out, shown.tolist()


@program("made from data")
def range_of_a_changing_length(torch, wrap):
    state = {"n": 3}
    f, out = wrap(lambda: torch.arange(state["n"]) * 2 + torch.ones(state["n"]).sum()), []
    for n in (3, 3, 3, 5, 2, 3, 0, 8):
        state["n"] = n
        out.append(f())
    return out


@program("made from data")
def buffer_shared(torch, wrap):
    buffer = bytearray([1, 2, 3, 4])

    def f():
        t = torch.frombuffer(buffer, dtype=torch.uint8)
        return t, t.sum()

    f, out = wrap(f), []
    for i in range(7):
        t, total = f()
        buffer[i % 4] = 20 + i
        out.append((t.clone(), total))
    return out


@program("made from data")
def made_of_nested_lists(torch, wrap):
    matrix = [[1, 2], [3, 4]]
    f, out = wrap(lambda x: torch.tensor(matrix, dtype=torch.float32) @ x[:2]), []
    for i in range(7):
        out.append(f(row(torch)))
        matrix[i % 2][0] += 1
        if i == 4:
            matrix.append([0, 1])
    return out


@program("made from data")
def vocabulary_that_grows(torch, wrap):
    vocabulary, table = {}, torch.arange(16.0).reshape(8, 2)

    def f(words):
        ids = [vocabulary.setdefault(word, len(vocabulary)) for word in words.split()]
        return table[torch.tensor(ids)].sum(0)

    f = wrap(f)
    texts = ["a b", "a b", "b a", "c a", "a b", "d e f", "a c", "a a"]
    return [f(text) for text in texts], vocabulary


@program("made from data")
def mask_from_a_list_of_lengths(torch, wrap):
    lengths = [1, 3]

    def f(x):
        mask = torch.zeros(2, 4, dtype=torch.bool)
        for i, n in enumerate(lengths):
            mask[i, :n] = True
        return x.expand(2, 4).masked_fill(~mask, -1.0)

    f, out = wrap(f), []
    for change in ([1, 3], [1, 3], [1, 3], [4, 0], [2, 2], [1, 3]):
        lengths[:] = change
        out.append(f(row(torch)))
    return out


@program("made from data")
def constant_tensor_rebuilt_and_kept(torch, wrap):
    """A tensor of constants made inside belongs to the caller, who writes to it."""
    f, kept = wrap(lambda: (torch.tensor([1.0, 2.0]), torch.zeros(2), torch.arange(3), torch.eye(2))), []
    for i in range(7):
        made = f()
        for t in made:
            t.add_(i)
        kept.append(made)
    return kept
