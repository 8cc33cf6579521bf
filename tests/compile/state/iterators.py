"""Iterators and generators of random numbers: a call uses up a part of them."""

from __future__ import annotations

import io
import itertools
import random

import numpy as np

from tests.compile.state.common import program, row


@program("iterators")
def next_of_a_list_iterator(torch, wrap):
    it = iter([1.0, 2.0, 3.0, 4.0])
    f = wrap(lambda x: x * next(it, -1.0))
    return [f(row(torch)) for _ in range(7)]


@program("iterators")
def count_and_cycle(torch, wrap):
    count, cycle = itertools.count(3), itertools.cycle([1.0, -1.0, 0.5])
    f = wrap(lambda x: x * next(cycle) + next(count))
    out = [f(row(torch)) for _ in range(4)]
    next(count)  # also used from outside
    next(cycle)
    return out, [f(row(torch)) for _ in range(4)], next(count)


@program("iterators")
def generator_of_tensors(torch, wrap):
    state = {"step": 1.0}

    def batches():
        x = torch.zeros(4)
        while True:
            x = x + state["step"]
            yield x

    stream = batches()
    f = wrap(lambda: next(stream) * 2)
    out = [f() for _ in range(4)]
    state["step"] = 10.0
    return out, [f() for _ in range(3)], next(stream)


@program("iterators")
def exhausted_iterator_raises(torch, wrap):
    log, it = [], iter([1.0, 2.0, 3.0, 4.0])

    def f(x):
        log.append("in")
        y = x * next(it)
        log.append("out")
        return y

    f = wrap(f)
    out = []
    for _ in range(6):
        try:
            out.append(f(row(torch)))
        except StopIteration:
            out.append("stop")
    return out, log


@program("iterators")
def random_instance(torch, wrap):
    rng = random.Random(7)
    f = wrap(lambda x: x * rng.random() + rng.randint(0, 9))
    out = [f(row(torch)) for _ in range(5)]
    rng.seed(7)
    return out, [f(row(torch)) for _ in range(3)], rng.random()


@program("iterators")
def random_choice_of_path(torch, wrap):
    rng = random.Random(3)

    def f(x):
        kind = rng.choice(["sin", "double", "neg"])
        return kind, {"sin": torch.sin, "double": lambda t: t * 2, "neg": torch.neg}[kind](x)

    f = wrap(f)
    return [f(row(torch)) for _ in range(10)]


@program("iterators")
def global_random_module(torch, wrap):
    random.seed(11)
    f = wrap(lambda x: -x if random.random() < 0.5 else x + random.gauss(0, 1))
    out = [f(row(torch)) for _ in range(8)]
    random.seed(11)
    return out, f(row(torch)), random.random()


@program("iterators")
def numpy_generator(torch, wrap):
    rng = np.random.default_rng(5)
    f = wrap(lambda x: x * float(rng.normal()) + torch.tensor(rng.random(4), dtype=torch.float32))
    out = [f(row(torch)) for _ in range(6)]
    rng.random()
    return out, f(row(torch)), rng.random()


@program("iterators")
def numpy_permutation_of_rows(torch, wrap):
    rng, data = np.random.default_rng(1), torch.arange(12.0).reshape(6, 2)
    f = wrap(lambda: data[torch.from_numpy(rng.permutation(6))[:2]])
    return [f() for _ in range(7)], int(rng.integers(1000))


@program("iterators")
def enumerate_kept(torch, wrap):
    words = ["a", "bb", "ccc"]
    it = enumerate(words, 1)

    def f(x):
        i, word = next(it)
        return x * i + len(word), word

    f = wrap(f)
    out = [f(row(torch)) for _ in range(3)]
    words += ["dddd", "e", "ff"]  # the iterator sees them
    return out + [f(row(torch)) for _ in range(3)]


@program("iterators")
def loader_within_the_function(torch, wrap):
    data = torch.utils.data.TensorDataset(torch.arange(10.0).reshape(5, 2), torch.arange(5.0))
    loader = torch.utils.data.DataLoader(data, batch_size=2)
    scale = [1.0]

    def epoch():
        total, n = torch.zeros(2), 0
        for x, y in loader:
            total = total + (x * y[:, None]).sum(0) * scale[0]
            n += 1
        return total, n

    epoch, out = wrap(epoch), []
    for i in range(6):
        scale[0] = 1.0 + (i > 2) * i
        if i == 4:
            data.tensors[0].add_(1)
        out.append(epoch())
    return out


@program("iterators")
def loader_iterator_kept(torch, wrap):
    class Squares(torch.utils.data.Dataset):
        asked = []

        def __len__(self):
            return 6

        def __getitem__(self, i):
            self.asked.append(i)
            return torch.tensor([float(i * i)])

    batches = iter(torch.utils.data.DataLoader(Squares(), batch_size=1))
    f = wrap(lambda x: x + next(batches)[0])
    return [f(row(torch)) for _ in range(6)], Squares.asked


@program("iterators")
def lines_read(torch, wrap):
    text = io.StringIO("1\n2\n\n4\n5\n6\n")
    f = wrap(lambda x: x * float(text.readline().strip() or -1))
    out = [f(row(torch)) for _ in range(5)]
    text.seek(2)
    return out, [f(row(torch)) for _ in range(5)], text.tell()


@program("iterators")
def zip_and_islice_kept(torch, wrap):
    pairs = zip(itertools.count(), itertools.cycle("ab"))

    def f(x):
        taken = list(itertools.islice(pairs, 2))
        for i, letter in taken:
            x = x + i if letter == "a" else x * 2
        return x

    f = wrap(f)
    out = [f(row(torch)) for _ in range(4)]
    next(pairs)
    return out, [f(row(torch)) for _ in range(3)]


@program("iterators")
def user_iterator_with_state(torch, wrap):
    class Schedule:
        def __init__(self):
            self.value = 1.0

        def __iter__(self):
            return self

        def __next__(self):
            self.value *= 0.5
            if self.value < 0.05:
                raise StopIteration
            return self.value

    schedule = Schedule()

    def f(x):
        for value in schedule:
            return x * value
        return x

    f = wrap(f)
    out = [f(row(torch)) for _ in range(6)]
    schedule.value = 1.0
    return out, f(row(torch)), schedule.value


@program("iterators")
def torch_generator_shared(torch, wrap):
    """Random numbers from a generator which is also drawn from and seeded outside; only relations are returned."""
    generator = torch.Generator()
    generator.manual_seed(3)
    f = wrap(lambda x: x + torch.rand(4, generator=generator))
    first = [f(row(torch)) for _ in range(6)]
    generator.manual_seed(3)
    again = [f(row(torch)) for _ in range(6)]
    generator.manual_seed(3)
    torch.rand(4, generator=generator)
    shifted = f(row(torch))
    same = [bool((a == b).all()) for a, b in zip(first, again)]
    return same, bool((shifted == first[1]).all()), bool((first[0] == first[1]).any())
