"""Checkpoints: PyTorch's files here and ours there, damaged and hostile files, atomic writes, safetensors."""

import argparse
import collections
import datetime
import io
import os
import pathlib
import pickle
import random
import signal
import subprocess
import sys
import time
import zipfile

import numpy as np
import pytest
import torch

import cleargrad as cg
from cleargrad.serialization.archive import Writer

CLEAN = (pickle.UnpicklingError, EOFError)
KINDS = [
    "bool",
    "uint8",
    "int8",
    "int16",
    "int32",
    "int64",
    "float16",
    "bfloat16",
    "float32",
    "float64",
    "complex64",
    "complex128",
]


def through_torch(thing):
    """Saved here, loaded by PyTorch in its strictest mode."""
    stream = io.BytesIO()
    cg.save(thing, stream)
    stream.seek(0)
    return torch.load(stream, weights_only=True)


def from_torch(thing, **options):
    """Saved by PyTorch, loaded here."""
    stream = io.BytesIO()
    torch.save(thing, stream)
    stream.seek(0)
    return cg.load(stream, **options)


def again(thing, **options):
    stream = io.BytesIO()
    cg.save(thing, stream)
    stream.seek(0)
    return cg.load(stream, **options)


def same(a, b, where=""):
    """Equal in values and in everything PyTorch saves of a tensor; a and b may be of either library."""
    if isinstance(a, (torch.Tensor, cg.Tensor)):
        assert type(a).__name__ == type(b).__name__, where
        assert (str(a.dtype), tuple(a.shape), a.requires_grad) == (
            str(b.dtype),
            tuple(b.shape),
            b.requires_grad,
        )
        if a.numel():
            assert (a.stride(), a.storage_offset()) == (b.stride(), b.storage_offset()), where
        assert a.detach().tolist() == b.detach().tolist(), where
    elif isinstance(a, dict):
        assert type(a).__name__ == type(b).__name__ and list(a) == list(b), where
        for key in a:
            same(a[key], b[key], f"{where}/{key}")
    elif isinstance(a, (list, tuple)):
        assert len(a) == len(b), where
        for k, (left, right) in enumerate(zip(a, b, strict=True)):
            same(left, right, f"{where}/{k}")
    else:
        assert a == b or str(a) == str(b), where


def contents(lib):
    """One of everything that a checkpoint holds."""
    x = lib.arange(24, dtype=lib.float32).reshape(4, 6)
    parameter = lib.nn.Parameter(x.clone())
    noted = lib.nn.Parameter(x.clone(), requires_grad=False)
    noted.note = [1, "two"]
    labelled = x.clone()
    labelled.label = "here"
    return {
        "whole": x, "transposed": x.t(), "view": x[1:, 2:4], "column": x[:, 3], "expanded": x[0, :1].expand(5),
        "scalar": lib.tensor(5), "empty": lib.zeros(0, 3), "strided": x[::2, ::3],
        "last": lib.ones(2, 3, 4, 5).contiguous(memory_format=lib.channels_last),
        "leaf": lib.ones(2, requires_grad=True), "result": lib.ones(2, requires_grad=True) * 2,
        "parameter": parameter, "noted": noted, "labelled": labelled,
        "kinds": [lib.ones(3).to(getattr(lib, kind)) for kind in KINDS],
        "size": x.shape, "dtype": lib.bfloat16, "device": lib.device("cpu"),
        "plain": [None, True, -5, 2**70, 2.5, "text", b"\x00\xff", 1 + 2j, (), {"a": {1, 2}}],
        "ordered": collections.OrderedDict(b=1, a=2), "counter": collections.Counter("aab"),
        "state": lib.get_rng_state(),
    }  # fmt: skip


# Both ways --------------------------------------------------------------------------------------------------


def test_from_torch():
    theirs = contents(torch)
    ours = from_torch(theirs)
    same(theirs, ours)
    assert ours["noted"].note == [1, "two"] and ours["labelled"].label == "here"
    assert ours["dtype"] is cg.bfloat16 and isinstance(ours["size"], cg.Size)
    assert ours["view"].untyped_storage().data_ptr() == ours["whole"].untyped_storage().data_ptr()
    ours["view"][0, 0] = 99.0
    assert ours["whole"][1, 2] == 99.0 and ours["transposed"][2, 1] == 99.0


def test_to_torch():
    ours = contents(cg)
    theirs = through_torch(ours)
    same(ours, theirs)
    assert theirs["noted"].note == [1, "two"] and theirs["labelled"].label == "here"
    theirs["view"][0, 0] = 99.0
    assert theirs["whole"][1, 2] == 99.0


def test_there_and_back_again():
    """What was loaded is saved with the same sharing, strides and offsets."""
    theirs = contents(torch)
    same(theirs, through_torch(from_torch(theirs)))
    same(contents(cg), again(again(contents(cg))))


def test_the_file_is_no_larger_than_needed():
    x = cg.zeros(1000, 1000)
    for tensor, size in ((x[0].clone(), 4_000), (x[0], 4_000_000), (cg.cat([x[0], x[1]]), 8_000)):
        stream = io.BytesIO()
        cg.save(tensor, stream)
        assert size <= len(stream.getvalue()) < size + 3_000
    stream = io.BytesIO()
    cg.save([x, x.t(), x[5:], x.detach(), x.data], stream)
    assert len(stream.getvalue()) < 4_005_000


def test_one_object_stays_one():
    weight = cg.nn.Parameter(cg.ones(2))
    a, b = again([weight, weight])
    assert a is b
    a, b = through_torch([weight, weight])
    assert a is b


def test_views_of_one_memory_as_two_types_are_refused():
    pairs = cg.zeros(3, dtype=cg.complex64)
    with pytest.raises(RuntimeError, match=r"view the same data as different types"):
        cg.save([pairs, cg.view_as_real(pairs)], io.BytesIO())


def test_numpy_and_random_states():
    thing = {
        "array": np.arange(6.0).reshape(2, 3),
        "fortran": np.asfortranarray(np.arange(6).reshape(2, 3)),
        "big": np.arange(3, dtype=">i4"),
        "text": np.array(["a", "bcd"]),
        "scalar": np.float64(2.5),
        "flag": np.bool_(True),
        "python": random.getstate(),
        "numpy": np.random.RandomState(3).get_state(),
    }
    for loaded in (again(thing), from_torch(thing)):
        for key in ("array", "fortran", "big", "text"):
            expected = pickle.loads(pickle.dumps(thing[key]))
            assert np.array_equal(loaded[key], expected) and loaded[key].dtype == expected.dtype
        assert loaded["scalar"] == 2.5 and type(loaded["scalar"]) is np.float64 and loaded["flag"]
        assert loaded["python"] == thing["python"]
        assert np.array_equal(loaded["numpy"][1], thing["numpy"][1])


def test_random_state_continues():
    torch.manual_seed(5)
    torch.rand(7)
    state = from_torch(torch.get_rng_state())
    cg.set_rng_state(state)
    expected = torch.rand(20).tolist()
    assert cg.rand(20).tolist() == expected
    torch.set_rng_state(through_torch(state))
    assert torch.rand(20).tolist() == expected


# Models -----------------------------------------------------------------------------------------------------


def training(lib):
    lib.manual_seed(1)
    model = lib.nn.Sequential(lib.nn.Linear(4, 8), lib.nn.BatchNorm1d(8), lib.nn.ReLU(), lib.nn.Linear(8, 2))
    optimizer = lib.optim.AdamW(model.parameters(), lr=0.05)
    scheduler = lib.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=10)
    scaler = lib.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=3)
    return model, optimizer, scheduler, scaler


def train(lib, parts, steps):
    model, optimizer, scheduler, scaler = parts
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        x = lib.randn(16, 4)
        loss = lib.nn.functional.mse_loss(lib.nn.functional.dropout(model(x), 0.1), x[:, :2])
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        scheduler.step()
        losses.append(loss.item())
    return losses


def states(lib, parts):
    return {"parts": [part.state_dict() for part in parts], "random": lib.get_rng_state()}


def resume(lib, loaded):
    parts = training(lib)
    for part, state in zip(parts, loaded["parts"], strict=True):
        part.load_state_dict(state)
    lib.set_rng_state(loaded["random"])
    return parts


def test_resuming_is_exact(tmp_path):
    parts = training(cg)
    train(cg, parts, 4)
    cg.save(states(cg, parts), tmp_path / "checkpoint.pt")
    expected = train(cg, parts, 6)
    cg.manual_seed(99)
    assert train(cg, resume(cg, cg.load(tmp_path / "checkpoint.pt")), 6) == expected


def test_a_run_moves_between_the_libraries():
    parts = training(torch)
    train(torch, parts, 4)
    saved = states(torch, parts)
    moved = states(cg, resume(cg, from_torch(saved)))
    back = through_torch(moved)  # before anybody trains: optimizers do not copy the states they load
    expected = train(torch, resume(torch, saved), 6)
    assert train(cg, resume(cg, moved), 6) == pytest.approx(expected, rel=1e-4)
    assert train(torch, resume(torch, back), 6) == expected


class Net(cg.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = cg.nn.Linear(3, 2)
        self.activation = cg.nn.functional.relu
        self.bound = cg.tanh

    def forward(self, x):
        return self.bound(self.activation(self.layer(x)))


def test_whole_modules():
    """With weights_only=False a module comes back, if its class is defined; nothing is imported."""
    net, x = Net(), cg.ones(1, 3)
    loaded = again(net, weights_only=False)
    assert type(loaded) is Net and loaded(x).tolist() == net(x).tolist()
    with pytest.raises(pickle.UnpicklingError, match=r"GLOBAL tests.test_serialize.Net was not an allowed"):
        again(net)
    with cg.serialization.safe_globals([Net, cg.nn.Linear, cg.nn.functional.relu]):
        pass  # entered and left without a trace
    assert cg.serialization.get_safe_globals() == []


@pytest.mark.parametrize(
    ("name", "given"), [("TransformerEncoderLayer", (8, 2, 16)), ("LSTM", (3, 2)), ("Sequential", ())]
)
def test_whole_modules_of_the_library(name, given):
    """Some have parts whose classes are not in torch.nn itself."""
    ours, theirs = getattr(cg.nn, name)(*given), getattr(torch.nn, name)(*given)
    for loaded in (again(ours, weights_only=False), from_torch(theirs, weights_only=False)):
        assert type(loaded) is type(ours) and list(loaded.state_dict()) == list(ours.state_dict())


# Arguments --------------------------------------------------------------------------------------------------


class Point:
    def __init__(self, x):
        self.x = x


def test_safe_globals():
    with pytest.raises(
        pickle.UnpicklingError, match=r"Unsupported global: GLOBAL tests.test_serialize.Point"
    ):
        again(Point(1))
    with pytest.raises(pickle.UnpicklingError, match=r"add_safe_globals\(\[Point\]\)"):
        again(Point(1), weights_only=False)
    with cg.serialization.safe_globals([Point]):
        assert again(Point(cg.ones(2))).x.tolist() == [1.0, 1.0]
    cg.serialization.add_safe_globals([Point])
    assert cg.serialization.get_safe_globals() == [Point] and again(Point(3)).x == 3
    cg.serialization.clear_safe_globals()
    with pytest.raises(pickle.UnpicklingError):
        again(Point(1))


def test_plain_data_classes_need_weights_only_false():
    thing = {
        "args": argparse.Namespace(lr=0.1),
        "when": datetime.datetime(2024, 2, 29, 12),
        "path": pathlib.PurePosixPath("a/b"),
        "queue": collections.deque([1, 2]),
        "default": collections.defaultdict(list, a=[1]),
    }
    assert again(thing, weights_only=False) == thing == from_torch(thing, weights_only=False)
    with pytest.raises(pickle.UnpicklingError, match=r"GLOBAL argparse.Namespace"):
        again(thing)


def test_paths_that_python_3_13_has_written():
    content = pickle.dumps(pathlib.PurePosixPath("a/b"), protocol=2)
    content = content.replace(b"cpathlib\n", b"cpathlib._local\n")
    stream = io.BytesIO()
    writer = Writer(stream, "archive")
    for name, part in (("data.pkl", content), ("version", b"3")):
        writer.write(name, part)
    writer.close()
    stream.seek(0)
    assert cg.load(stream, weights_only=False) == pathlib.PurePosixPath("a/b")


def test_map_location():
    stream = io.BytesIO()
    writer = Writer(stream, "archive")
    buffer = io.BytesIO()
    torch.save(torch.ones(3), buffer)
    content = zipfile.ZipFile(buffer).read("archive/data.pkl").replace(b"\x03\0\0\0cpu", b"\x06\0\0\0cuda:0")
    for name, part in (
        ("data.pkl", content),
        ("data/0", np.ones(3, np.float32).tobytes()),
        ("version", b"3"),
    ):
        writer.write(name, part)
    writer.close()
    with pytest.raises(RuntimeError, match=r"Attempting to deserialize object on a CUDA device but"):
        cg.load(io.BytesIO(stream.getvalue()))
    seen = []

    def chosen(storage, location):
        seen.append((location, storage.nbytes()))
        return storage

    for place in ("cpu", cg.device("cpu"), {"cuda:0": "cpu"}, chosen):
        assert cg.load(io.BytesIO(stream.getvalue()), map_location=place).tolist() == [1.0, 1.0, 1.0]
    assert seen == [("cuda:0", 12)]
    with pytest.raises(RuntimeError, match=r"CUDA device"):
        cg.load(io.BytesIO(stream.getvalue()), map_location="cuda:1")


def test_mmap(tmp_path):
    path = tmp_path / "big.pt"
    cg.save({"x": cg.arange(10000)}, path)
    x = cg.load(path, mmap=True)["x"]
    x[3] = -1  # private to this process
    assert x[:5].tolist() == [0, 1, 2, -1, 4]
    assert cg.load(path)["x"][3] == 3
    torch.save({"x": torch.arange(100)}, path)
    assert cg.load(path, mmap=True)["x"].tolist() == list(range(100))
    with pytest.raises(ValueError, match=r"f must be a file path in order to use the mmap argument"):
        cg.load(io.BytesIO(), mmap=True)


def test_files_and_streams(tmp_path):
    class Pipe:
        def __init__(self):
            self.parts = []

        def write(self, part):
            self.parts.append(bytes(part))

    pipe = Pipe()
    cg.save([1, cg.ones(2)], pipe)
    same(cg.load(io.BytesIO(b"".join(pipe.parts))), [1, cg.ones(2)])
    same(torch.load(io.BytesIO(b"".join(pipe.parts))), [1, cg.ones(2)])
    for path in (tmp_path / "a.pt", str(tmp_path / "b.pt"), os.fsencode(tmp_path / "c.pt")):
        cg.save(3, path)
        assert cg.load(path) == 3
    with open(tmp_path / "d.pt", "wb") as stream:
        cg.save(cg.ones(3), stream)
    with open(tmp_path / "d.pt", "rb") as stream:
        assert cg.load(stream).tolist() == [1.0] * 3
    assert zipfile.ZipFile(tmp_path / "a.pt").testzip() is None
    with pytest.raises(AttributeError, match=r"'write' attribute"):
        cg.save(3, 4)
    with pytest.raises(AttributeError, match=r"seekable"):
        cg.load(4.5)
    with pytest.raises(FileNotFoundError):
        cg.load(tmp_path / "nothing.pt")
    with pytest.raises(RuntimeError, match=r"Parent directory .* does not exist"):
        cg.save(3, tmp_path / "no" / "folder.pt")
    with pytest.raises(
        RuntimeError, match=r"Can not safely load weights when explicit pickle_module is specified"
    ):
        cg.load(tmp_path / "a.pt", pickle_module=pickle, weights_only=True)


def test_big_endian_files():
    stream = io.BytesIO()
    cg.save([cg.arange(5), cg.ones(2, dtype=cg.complex64)], stream)
    source = zipfile.ZipFile(stream)
    swapped = io.BytesIO()
    writer = Writer(swapped, "archive")
    for name in source.namelist():
        if name.endswith("/sums"):
            continue
        content = source.read(name)
        kind = {"archive/data/0": ">i8", "archive/data/1": ">f4"}.get(name)
        if kind:
            content = np.frombuffer(content, kind.replace(">", "<")).astype(kind).tobytes()
        writer.write(name.removeprefix("archive/"), b"big" if name.endswith("byteorder") else content)
    writer.close()
    x, y = cg.load(swapped)
    assert x.tolist() == [0, 1, 2, 3, 4] and y.tolist() == [1, 1]


# Hostile and damaged files ----------------------------------------------------------------------------------


def archive_of(content, storages=()):
    stream = io.BytesIO()
    writer = Writer(stream, "archive")
    writer.write("data.pkl", content)
    for key, part in enumerate(storages):
        writer.write(f"data/{key}", part)
    writer.write("version", b"3")
    writer.close()
    stream.seek(0)
    return stream


class Evil:
    def __init__(self, function, *arguments):
        self.function, self.arguments = function, arguments

    def __reduce__(self):
        return self.function, self.arguments


@pytest.mark.parametrize("weights_only", [True, False])
@pytest.mark.parametrize("protocol", [0, 1, 2, 4, 5])
def test_nothing_is_executed(tmp_path, weights_only, protocol):
    mark = str(tmp_path / "executed")
    for function, arguments in (
        (os.system, (f"touch {mark}",)),
        (eval, (f"open({mark!r}, 'w')",)),
        (exec, (f"open({mark!r}, 'w')",)),
        (open, (mark, "w")),
        (getattr, ("", "join")),
        (subprocess.Popen, (["touch", mark],)),
        (bytearray, (10**15,)),
        (__import__, ("os",)),
        (type, ("X", (), {})),
        (np.load, (mark,)),
    ):
        content = pickle.dumps({"a": [Evil(function, *arguments)]}, protocol)
        with pytest.raises(pickle.UnpicklingError):
            cg.load(archive_of(content), weights_only=weights_only)
    assert not os.path.exists(mark)


def test_the_refusal_names_what_was_refused():
    with pytest.raises(pickle.UnpicklingError, match=r"Unsupported global: GLOBAL (posix|nt).system"):
        cg.load(archive_of(pickle.dumps(Evil(os.system, "true"), 2)))


TENSOR = b"ctorch._utils\n_rebuild_tensor_v2\n"
STORAGE = b"((X\x07\0\0\0storagectorch\nFloatStorage\nX\x01\0\0\x000X\x03\0\0\0cpuK\x03tQ"


@pytest.mark.parametrize(
    "content",
    [
        b"\x80\x02" + TENSOR + STORAGE + b"K\0K\x04\x85K\x01\x85\x89}tR.",  # four of three elements
        b"\x80\x02" + TENSOR + STORAGE + b"K\x02K\x02\x85K\x01\x85\x89}tR.",  # from the third on
        b"\x80\x02" + TENSOR + STORAGE + b"K\0J\xff\xff\xff\xff\x85K\x01\x85\x89}tR.",  # a negative size
        b"\x80\x02" + TENSOR + STORAGE + b"K\0K\x02\x85J\xff\xff\xff\xff\x85\x89}tR.",  # a negative stride
        b"\x80\x02" + TENSOR + STORAGE + b"J\xfc\xff\xff\xffK\x02\x85K\x01\x85\x89}tR.",  # a negative offset
        b"\x80\x02" + TENSOR + STORAGE.replace(b"\x000X", b"\x009X") + b"K\0)) \x89}tR.",  # a missing record
        b"\x80\x02" + TENSOR + b"(K\0K\0K\x02\x85K\x01\x85\x89}tR.",  # no storage
        b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n}X\x01\0\0\0aK\1sb.",  # a state for a function
        b"\x80\x02ccollections\nOrderedDict\n}X\x01\0\0\0aK\1sb.",  # a state for a class
        b"\x80\x02ctorch.nn.parameter\nParameter\n}X\x01\0\0\0aK\1sb.",
        b"\x80\x02ctorch.nn.parameter\nParameter\n)\x81.",  # made without a tensor
        b"\x80\x02K\x01)R.",  # a number is called
        b"\x80\x02cbuiltins\nint\nX\x01\0\0\x001\x85R.",  # mentioned is not callable
        b"\x80\x02(.",
        b"\x80\x02.",
        b"\x80\x02h\x05.",
        b"\x80\x02]",
        b"\x80\x02Q.",
        b"\x80\x02(K\x01u.",
        b"\x80\x02}]K\x01s.",  # a list as a key
        b"\x80\x02\x82\x01.",  # an extension
        b"",
    ],
)
def test_malformed_pickles(content):
    good = b"\x80\x02" + TENSOR + STORAGE + b"K\0K\x03\x85K\x01\x85\x89}tR."
    storage = np.arange(3, dtype=np.float32).tobytes()
    assert cg.load(archive_of(good, [storage])).tolist() == [0.0, 1.0, 2.0]
    with pytest.raises(pickle.UnpicklingError):
        cg.load(archive_of(content, [storage]))


def checkpoint():
    stream = io.BytesIO()
    cg.save({"weight": cg.arange(300.0), "bias": cg.ones(7), "epoch": 3, "names": ["a", "b"]}, stream)
    return stream.getvalue()


def test_truncated_files():
    whole = checkpoint()
    for length in {*range(0, len(whole), 41), 1, 2, 3, 4, len(whole) - 1}:
        with pytest.raises(CLEAN):
            cg.load(io.BytesIO(whole[:length]))


def test_flipped_bits_are_noticed():
    whole, generator = checkpoint(), random.Random(0)
    expected = cg.load(io.BytesIO(whole))
    for _ in range(400):
        damaged = bytearray(whole)
        damaged[generator.randrange(len(damaged))] ^= 1 << generator.randrange(8)
        try:
            loaded = cg.load(io.BytesIO(damaged))
        except CLEAN:
            continue
        same(loaded, expected)  # the bit was in padding, a date, or a name that nobody reads


def test_random_pickles():
    """Whatever a pickle says, the answer is an object or a clean error."""
    stream = io.BytesIO()
    torch.save(contents(torch), stream)
    content, generator = zipfile.ZipFile(stream).read("archive/data.pkl"), random.Random(1)
    storages = [np.zeros(24, np.float64).tobytes()] * 20
    for round in range(250):
        damaged = bytearray(content)
        for _ in range(generator.randrange(1, 6)):
            damaged[generator.randrange(len(damaged))] = generator.randrange(256)
        try:
            cg.load(archive_of(bytes(damaged), storages), weights_only=round % 2 == 0)
        except (*CLEAN, RuntimeError):
            pass


def test_other_formats(tmp_path):
    torch.save(torch.ones(2), tmp_path / "old.pt", _use_new_zipfile_serialization=False)
    with pytest.raises(pickle.UnpicklingError, match=r"before version 1.6"):
        cg.load(tmp_path / "old.pt")
    with pytest.raises(pickle.UnpicklingError, match=r"not a checkpoint"):
        cg.load(io.BytesIO(b"hello"))
    with pytest.raises(EOFError, match=r"Ran out of input"):
        cg.load(io.BytesIO(b""))
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("a/b", "c")
    with pytest.raises(pickle.UnpicklingError, match=r"no record data.pkl"):
        cg.load(stream)
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a/data.pkl", b"0" * 10**6)
    with pytest.raises(pickle.UnpicklingError, match=r"compressed"):
        cg.load(stream)
    with pytest.raises(RuntimeError, match=r"is not written"):
        cg.save(3, tmp_path / "x.pt", _use_new_zipfile_serialization=False)


# Atomic writes ----------------------------------------------------------------------------------------------

WRITER = """
import sys, cleargrad as cg
path = sys.argv[1]
value = 0
while True:
    value += 1
    cg.save({"value": value, "tensors": [cg.full((100_000,), float(value)) for _ in range(4)]}, path)
    if value == 1:
        print("ready", flush=True)
"""


def test_a_killed_writer_leaves_a_whole_file(tmp_path):
    path, generator = tmp_path / "checkpoint.pt", random.Random(2)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    cg.save({"value": 0, "tensors": [cg.zeros(3)]}, path)
    for _ in range(3):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path)], env=environment, stdout=subprocess.PIPE
        )
        assert writer.stdout.readline() == b"ready\n"
        for _ in range(8):  # stopped in the middle of a write, the file is whole for others too
            time.sleep(generator.uniform(0.0, 0.03))
            writer.send_signal(signal.SIGSTOP)
            loaded = cg.load(path)
            assert all(float(loaded["value"]) == tensor[-1] == tensor[0] for tensor in loaded["tensors"])
            writer.send_signal(signal.SIGCONT)
        time.sleep(generator.uniform(0.0, 0.03))
        writer.kill()
        writer.wait()
        writer.stdout.close()
        loaded = cg.load(path)
        assert all(float(loaded["value"]) == tensor[-1] == tensor[0] for tensor in loaded["tensors"])
    assert loaded["value"] > 0


def test_a_failed_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "a.pt"
    cg.save(1, path)
    os.chmod(path, 0o640)
    with pytest.raises((TypeError, AttributeError, pickle.PicklingError)):
        cg.save([cg.ones(3), lambda: None], path)
    assert cg.load(path) == 1 and os.listdir(tmp_path) == ["a.pt"]
    cg.save(2, path)
    assert cg.load(path) == 2 and os.stat(path).st_mode & 0o777 == 0o640


def test_links_stay_links(tmp_path):
    cg.save(1, tmp_path / "real.pt")
    os.symlink(tmp_path / "real.pt", tmp_path / "link.pt")
    cg.save(2, tmp_path / "link.pt")
    assert os.path.islink(tmp_path / "link.pt") and cg.load(tmp_path / "real.pt") == 2
    cg.save(3, os.devnull)
    assert not os.path.isfile(os.devnull)


# safetensors ------------------------------------------------------------------------------------------------


def test_safetensors(tmp_path):
    import safetensors.torch

    path = tmp_path / "weights.safetensors"
    real = [kind for kind in KINDS if not kind.startswith("complex")]
    ours = {kind: cg.arange(6).reshape(2, 3).to(getattr(cg, kind)) for kind in real}
    ours["transposed"] = cg.arange(6.0).reshape(2, 3).t()
    cg.save(ours, path)
    theirs = safetensors.torch.load_file(path)
    for name, tensor in cg.load(path).items():
        assert str(tensor.dtype) == str(theirs[name].dtype) == str(ours[name].dtype)
        assert tensor.tolist() == theirs[name].tolist() == ours[name].tolist()
    safetensors.torch.save_file({"x": torch.ones(2, dtype=torch.bfloat16)}, path)
    loaded = cg.load(path)["x"]
    loaded += 1
    assert loaded.dtype is cg.bfloat16 and loaded.tolist() == [2.0, 2.0]
    for wrong in ([cg.ones(2)], {"a": 3}, {1: cg.ones(2)}):
        with pytest.raises(ValueError, match=r"a dict of names and tensors"):
            cg.save(wrong, path)
    whole = path.read_bytes()
    for length in (0, 5, 20, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(pickle.UnpicklingError, match=r"safetensors"):
            cg.load(path)


# Storages ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lib", [torch, cg], ids=["torch", "cleargrad"])
def test_storages(lib):
    x = lib.arange(12.0).reshape(3, 4)
    y = x[1:, 1:]
    assert x.untyped_storage().data_ptr() == y.untyped_storage().data_ptr() == x.data_ptr()
    assert y.storage_offset() == 5 and x.t().storage_offset() == 0
    assert y.untyped_storage().nbytes() == 48 and len(y.untyped_storage()) == 48
    assert x.clone().untyped_storage().data_ptr() != x.data_ptr()
    assert x.t().clone().storage_offset() == 0
