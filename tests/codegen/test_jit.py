"""Machine code in this process, its cache on disk, and the threads that run it."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from cleargrad.core import disk_cache
from cleargrad.devices.cpu import team
from cleargrad.devices.cpu.llvm import jit
from cleargrad.devices.cpu.llvm.text import Code, Val, vector

PARAMETERS = [Val("%args", "ptr"), Val("%lo", "i64"), Val("%hi", "i64"), Val("%scratch", "ptr")]


def add_kernel(amount: float, width: int = 4) -> jit.Kernel:
    """args[0][i] += amount, for the blocks of `width` floats from lo to hi."""
    code = Code()
    array = code.load(PARAMETERS[0], "ptr")
    first, last = (code.mul(x, code.integer(width)) for x in PARAMETERS[1:3])
    with code.loop(first, last, width) as index:
        place = code.at(array, index, "float")
        value = code.load(place, vector("float", width))
        code.store(code.add(value, code.const(amount, value.type)), place)
    code.do("ret void")
    return jit.Kernel(code.function("kernel", PARAMETERS), tuple(code.declared))


def run_alone(address: int, array: np.ndarray, blocks: int) -> None:
    words = np.array([array.ctypes.data])
    shape = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)
    shape(address)(words.ctypes.data, 0, blocks, None)


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(jit, "cache_folder", lambda: tmp_path)
    return tmp_path


def test_code_comes_from_the_disk_the_second_time(own_cache: Path) -> None:
    first, second = jit.Jit(), jit.Jit()
    first.addresses([add_kernel(1.5)])
    (address,) = second.addresses([add_kernel(1.5)])
    assert (first.compiled, second.compiled) == (1, 0)
    array = np.zeros(8, np.float32)
    run_alone(address, array, 2)
    assert array.tolist() == [1.5] * 8


def test_a_named_kernel_on_the_disk_is_not_written_again(
    own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = []

    def write() -> jit.Kernel:
        written.append(1)
        return add_kernel(4.5)

    for _ in range(2):
        machine = jit.Jit()
        (address,) = machine.addresses([jit.Kernel.later("four and a half", write)])
        array = np.zeros(4, np.float32)
        run_alone(address, array, 1)
        assert array.tolist() == [4.5] * 4
    assert len(written) == 1
    monkeypatch.setattr(jit, "sources", lambda: "other modules")
    jit.Jit().addresses([jit.Kernel.later("four and a half", write)])
    assert len(written) == 2
    monkeypatch.setattr(jit, "sources", lambda: "")  # modules that cannot be read: the text decides
    assert jit.Kernel.later("four and a half", write).identity == add_kernel(4.5).module


def test_every_module_that_writes_kernels_counts_for_their_names() -> None:
    package = Path(jit.__file__).parents[3]
    rooms = {package / room for room in jit.WRITERS}
    assert all(any(room.glob("*.py")) for room in rooms)
    for path in package.rglob("*.py"):
        if "Kernel.later(" in path.read_text() or "@named" in path.read_text():
            assert path.parent in rooms


@pytest.mark.parametrize("damage", [b"", b"nonsense", None])
def test_a_damaged_file_is_compiled_anew(damage: bytes | None, own_cache: Path) -> None:
    jit.Jit().addresses([add_kernel(2.5)])
    (path,) = own_cache.glob("*.o")
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]) if damage is None else damage)
    again = jit.Jit()
    (address,) = again.addresses([add_kernel(2.5)])
    assert again.compiled == 1 and path.read_bytes() == whole
    array = np.zeros(4, np.float32)
    run_alone(address, array, 1)
    assert array.tolist() == [2.5] * 4


def test_a_cache_that_cannot_be_written_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jit, "cache_folder", lambda: Path("/proc/no/such/folder"))
    assert jit.Jit().addresses([add_kernel(3.5)])[0]


def test_what_nobody_uses_is_removed_and_nothing_else(own_cache: Path) -> None:
    jit.Jit().addresses([add_kernel(k / 4) for k in range(3)])
    used, unused, _ = sorted(own_cache.glob("*.o"))
    users, left = own_cache / "thesis.o", own_cache / "unfinished-abc"
    for path in (users, left):
        path.write_text("")
    long_ago = time.time() - disk_cache.KEPT - 60
    for path in (used, unused, users, left, own_cache / disk_cache.TIDIED):
        os.utime(path, (long_ago, long_ago))
    assert disk_cache.read_cached(used) is not None
    disk_cache.write_cached(own_cache / "new.o", b"code")
    assert used.exists() and users.exists() and not unused.exists() and not left.exists()
    os.utime(used, (long_ago, long_ago))
    disk_cache.write_cached(own_cache / "newer.o", b"code")
    assert used.exists()  # once a day is enough


def test_processes_that_share_a_cache(tmp_path: Path) -> None:
    made = "jit.addresses([add_kernel(k / 8) for k in range(20)])"
    program = f"from tests.codegen.test_jit import *\nprint(len({made}))"
    command = [sys.executable, "-c", program]
    environment = {**os.environ, "CLEARGRAD_CACHE": str(tmp_path)}
    here = Path(__file__).parents[2]
    running = [subprocess.Popen(command, env=environment, cwd=here, stdout=subprocess.PIPE) for _ in range(3)]
    assert [process.communicate(timeout=60)[0] for process in running] == [b"20\n"] * 3
    assert len(list(tmp_path.glob("*.o"))) == 20 and not list(tmp_path.glob("unfinished*"))


def records(kernels: list[jit.Kernel], array: np.ndarray, units: int, flags: list[int]) -> tuple:
    words = np.array([array.ctypes.data])
    rows = [
        [address, words.ctypes.data, units, flag]
        for address, flag in zip(jit.addresses(kernels), flags, strict=True)
    ]
    return np.array(rows, np.int64), words


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_every_unit_is_done_once(threads: int) -> None:
    crew = team.Team(threads)
    array = np.zeros(4 * 103, np.float32)
    flags = [0, team.WAIT, team.WAIT | team.ALONE, team.WAIT]
    list_, _words = records([add_kernel(x) for x in (1.0, 10.0, 100.0, 1000.0)], array, 103, flags)
    for turn in range(50):
        crew.run(list_.ctypes.data, len(list_), threads)
        assert set(array.tolist()) == {1111.0 * (turn + 1)}
    crew.run(list_.ctypes.data, 1, 1)
    assert array[0] == 50 * 1111 + 1


def test_an_idle_team_sleeps() -> None:
    crew = team.Team(3)
    array = np.zeros(400, np.float32)
    list_, _words = records([add_kernel(1.0)], array, 100, [0])
    crew.run(list_.ctypes.data, 1, 3)
    time.sleep(0.2)
    before = time.process_time()
    time.sleep(0.5)
    assert time.process_time() - before < 0.1
    crew.run(list_.ctypes.data, 1, 3)
    assert set(array.tolist()) == {2.0}


def test_a_forked_child_has_a_team_of_its_own() -> None:
    program = """
import os, numpy as np
from tests.codegen.test_jit import add_kernel, records, team
array = np.zeros(400, np.float32)
list_, _words = records([add_kernel(1.0)], array, 100, [0])
team.team().run(list_.ctypes.data, 1, 2)
child = os.fork()
if child == 0:
    team.team().run(list_.ctypes.data, 1, 2)
    os._exit(0 if set(array.tolist()) == {2.0} else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    command = [sys.executable, "-W", "ignore", "-c", program]
    here = Path(__file__).parents[2]
    done = subprocess.run(command, cwd=here, capture_output=True, text=True, timeout=60)
    assert done.stdout == "0\n", done.stderr


def test_threads_that_compile_first_at_once_share_one_of_all() -> None:
    program = """
import threading
from cleargrad.devices.cpu.llvm.jit import jit
from cleargrad.devices.cpu.team import team
start, found = threading.Barrier(6), []
def look():
    start.wait()
    found.append((id(jit()), id(team())))
threads = [threading.Thread(target=look) for _ in range(6)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert len(found) == 6 and len(set(found)) == 1, found
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
