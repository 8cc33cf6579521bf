"""The zip container of PyTorch's checkpoints: named records, stored as they are and aligned to 64 bytes.

`Writer` appends records to a stream; `Reader` finds them again and reads many at once. Read next:
serialization/names.py.
"""

from __future__ import annotations

import contextlib
import functools
import io
import os
import struct
import threading
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pickle import UnpicklingError
from typing import Any

import numpy as np

from cleargrad.errors import error
from cleargrad.storage import Memory

try:
    from zlib_ng.zlib_ng import crc32  # several times as fast as the one in Python's zlib
except ImportError:
    from zlib import crc32

ALIGNMENT = 64
SMALL = 1 << 20  # bytes that are not worth a thread
CHUNK = 1 << 21  # bytes that are still in the cache when their sum is taken
SUMS = "sums"  # a record of our own: the sums of the words of every storage
HEADER = 30  # bytes of a record's local header before its name
LEGACY_START = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."  # the magic number of PyTorch before 1.6


# The headers of the zip format, without their signatures. Sizes and offsets stand in the 64-bit fields always.
LOCAL = struct.Struct("<4s5H3I2H")
CENTRAL = struct.Struct("<4s6H3I5H2I")
WIDE = struct.Struct("<2H3Q")  # sizes and offset, 64 bits each
END_WIDE = struct.Struct("<4sQ2H2I4Q")
LOCATOR = struct.Struct("<4sIQI")
END = struct.Struct("<4s4H2IH")
FULL, VERSION, UTF8, WIDE_FIELD = 0xFFFFFFFF, 45, 1 << 11, 1
SOME_TIME, SOME_DATE = 0, 33  # the first of January 1980: equal contents give equal files


def add_words(content: Any, total: int = 0) -> int:
    """The sum of all 64-bit words: any flipped bit changes it, and it is as fast as memory, unlike a CRC."""
    whole = len(content) // 8 * 8
    words = np.frombuffer(content[:whole], np.uint64)
    tail = int.from_bytes(bytes(content[whole:]), "little")
    return (total + int(np.add.reduce(words)) + tail) % 2**64


def checks_of(content: np.ndarray) -> tuple[int, int]:
    return crc32(content), add_words(content)


class Writer:
    """Appends records to a zip archive on a stream, which need not be able to seek."""

    def __init__(self, stream: Any, folder: str):
        self.stream, self.folder = stream, folder
        self.position = 0
        self.directory: list[bytes] = []

    def put(self, content: Any) -> None:
        self.stream.write(content)
        self.position += memoryview(content).nbytes

    def write(self, name: str, content: Any, checksum: int | None = None) -> None:
        """One record: bytes, or an array of bytes, which is not copied."""
        label = f"{self.folder}/{name}".encode()
        size, checksum = memoryview(content).nbytes, crc32(content) if checksum is None else checksum
        wide = WIDE.pack(WIDE_FIELD, 24, size, size, self.position)
        start = self.position + LOCAL.size + len(label) + len(wide) + 4
        padding = -start % ALIGNMENT
        extra = wide + struct.pack("<2sH", b"FB", padding) + b"Z" * padding
        facts = (SOME_TIME, SOME_DATE, checksum, FULL, FULL, len(label))
        header = CENTRAL.pack(
            b"PK\1\2", VERSION, VERSION, UTF8, 0, *facts, len(wide), 0, 0, 0, 0, FULL
        )  # fmt: skip
        self.directory.append(header + label + wide)
        self.put(LOCAL.pack(b"PK\3\4", VERSION, UTF8, 0, *facts, len(extra)) + label + extra)
        self.put(content)

    def write_storages(self, storages: dict[str, np.ndarray]) -> None:
        """Large records, and their sums of words; checksums are taken ahead while records are written."""
        few = sum(content.nbytes for content in storages.values()) < SMALL
        with contextlib.nullcontext() if few else ThreadPoolExecutor(1) as pool:
            checks = (map if pool is None else pool.map)(checks_of, storages.values())
            rows = []
            for (name, content), (checksum, total) in zip(storages.items(), checks, strict=True):
                self.write(name, content, checksum)
                rows.append(f"{name} {total}")
        self.write(SUMS, "\n".join(rows).encode())

    def close(self) -> None:
        """Writes the directory, without which the archive cannot be read."""
        start, count, directory = self.position, len(self.directory), b"".join(self.directory)
        size = len(directory)
        self.put(directory)
        end = self.position
        self.put(
            END_WIDE.pack(b"PK\6\6", END_WIDE.size - 12, VERSION, VERSION, 0, 0, count, count, size, start)
        )
        self.put(LOCATOR.pack(b"PK\6\7", 0, end, 1))
        self.put(END.pack(b"PK\5\6", 0, 0, 0xFFFF, 0xFFFF, FULL, FULL, 0))


def corrupted(rule: str, **facts: object) -> Exception:
    fix = "the file is damaged or was not written to its end; use an older checkpoint"
    return error(UnpicklingError, "load", rule, fix=fix, **facts)


class Reader:
    """Reads records of a zip archive from a seekable stream."""

    def __init__(self, stream: Any):
        self.stream = stream
        self.lock = threading.Lock()
        refuse_other_formats(stream)
        self.end = stream.seek(0, os.SEEK_END)
        try:
            self.zip = zipfile.ZipFile(stream)
            names = self.zip.namelist()
        except (zipfile.BadZipFile, OSError, ValueError, struct.error, NotImplementedError) as failure:
            raise corrupted(f"PytorchStreamReader failed reading zip archive: {failure}") from failure
        folders = {name.partition("/")[0] for name in names}
        self.folder = folders.pop() if len(folders) == 1 else ""
        if f"{self.folder}/data.pkl" not in names:
            raise corrupted("the archive has no record data.pkl, so it is not a checkpoint")
        if f"{self.folder}/constants.pkl" in names:
            rule = "the file is a TorchScript program, not a checkpoint"
            raise error(RuntimeError, "load", rule, fix="save model.state_dict() with torch.save instead")
        self.handle = descriptor_of(stream)
        self.sums = self.read_sums()

    def has(self, name: str) -> bool:
        return f"{self.folder}/{name}" in self.zip.NameToInfo

    def entry(self, name: str) -> zipfile.ZipInfo:
        entry = self.zip.NameToInfo.get(f"{self.folder}/{name}")
        if entry is None:
            raise corrupted(f"the checkpoint refers to the record {name!r}, which is missing")
        if entry.compress_type != zipfile.ZIP_STORED or entry.compress_size != entry.file_size:
            raise corrupted(f"the record {name!r} is compressed, which no checkpoint's record is")
        return entry

    def size(self, name: str) -> int:
        return self.entry(name).file_size

    def start(self, entry: zipfile.ZipInfo) -> int:
        """Where in the stream a record's content begins."""
        header = bytearray(HEADER)
        self.fill(memoryview(header), entry.header_offset)
        if header[:4] != b"PK\x03\x04":
            raise corrupted(f"the record {entry.filename!r} has no header")
        name, extra = struct.unpack_from("<HH", header, 26)
        return entry.header_offset + HEADER + name + extra

    def fill(self, buffer: memoryview, position: int) -> None:
        """Reads bytes from a position until a buffer is full."""
        if position < 0 or position + len(buffer) > self.end:
            raise corrupted("a record lies outside of the file")
        done = 0
        while done < len(buffer):
            if self.handle is not None:
                count = os.preadv(self.handle, [buffer[done:]], position + done)
            else:
                with self.lock:
                    self.stream.seek(position + done)
                    part = self.stream.read(len(buffer) - done)
                    count = len(part)
                    buffer[done : done + count] = part
            if not count:
                raise corrupted("the file ends in the middle of a record")
            done += count

    def read_sums(self) -> dict[str, int]:
        """The sums of words that our own files state; PyTorch's have none."""
        if not self.has(SUMS):
            return {}
        rows = [line.split(" ") for line in self.read(SUMS).decode("ascii", "replace").splitlines()]
        return {row[0]: int(row[1]) for row in rows if len(row) == 2 and row[1].isdecimal()}

    def read(self, name: str) -> bytes:
        entry = self.entry(name)
        content = bytearray(self.checked_size(entry))
        self.read_into(entry, content, crc32, entry.CRC)
        return bytes(content)

    def checked_size(self, entry: zipfile.ZipInfo) -> int:
        """The size a record claims, when the file is long enough for it."""
        if entry.header_offset + entry.file_size > self.end:
            raise corrupted(f"the record {entry.filename!r} claims to be longer than the file")
        return entry.file_size

    def read_into(self, entry: zipfile.ZipInfo, content: Any, take: Callable, expected: int) -> None:
        """Reads a record; `take` continues a checksum, which must come out as expected."""
        view, start, checksum = memoryview(content), self.start(entry), 0
        for place in range(0, len(view), CHUNK):
            chunk = view[place : place + CHUNK]
            self.fill(chunk, start + place)
            checksum = take(chunk, checksum)
        if checksum != expected:
            raise corrupted(f"the checksum of the record {entry.filename!r} is wrong")

    def names(self, start: str) -> list[str]:
        """The records whose names begin so."""
        start = f"{self.folder}/{start}"
        return [
            name.removeprefix(self.folder + "/") for name in self.zip.namelist() if name.startswith(start)
        ]

    @contextlib.contextmanager
    def reading(self, names: list[str]) -> Iterator[Callable[[str], Memory]]:
        """Records are read as memory for tensors, large ones by threads; the function waits for one of them."""
        if sum(self.size(name) for name in names) < SMALL:
            yield functools.cache(lambda name: self.memory(name, self.room(name)))
            return
        pool = ThreadPoolExecutor(min(4, os.cpu_count() or 1))
        try:
            # Memory from a thread's own heap would not be used again.
            futures = {name: pool.submit(self.memory, name, self.room(name)) for name in names}
            yield lambda name: futures[name].result()
        finally:
            pool.shutdown(cancel_futures=True)

    def room(self, name: str) -> Memory:
        return Memory(self.checked_size(self.entry(name)), np.uint8)

    def memory(self, name: str, memory: Memory) -> Memory:
        """A record, read into memory for tensors."""
        entry = self.entry(name)
        check = (add_words, self.sums[name]) if name in self.sums else (crc32, entry.CRC)
        self.read_into(entry, memory, *check)
        return memory

    def mapping(self, path: Any) -> Callable[[str], Memory]:
        """Records as memory mapped from the file: pages are read when touched, and writes stay private."""
        whole = np.memmap(path, np.uint8, "c")

        def memory(name: str) -> Memory:
            entry = self.entry(name)
            start = self.start(entry)
            return whole[start : start + self.checked_size(entry)].view(Memory)

        return functools.cache(memory)


def descriptor_of(stream: Any) -> int | None:
    """The file descriptor for reading at positions, when the stream is a plain file."""
    if isinstance(stream, (io.BufferedReader, io.BufferedRandom, io.FileIO)) and hasattr(os, "preadv"):
        with contextlib.suppress(OSError, ValueError):
            return stream.fileno()
    return None


def refuse_other_formats(stream: Any) -> None:
    """Names the format of files that are not zip archives."""
    position = stream.tell()
    stream.seek(0)
    start = stream.read(512)
    stream.seek(position)
    if not start:
        raise error(EOFError, "load", "Ran out of input: the file is empty")
    if start.startswith(LEGACY_START) or start[257:262] == b"ustar":
        rule = (
            "the file has PyTorch's format of before version 1.6, which cannot be read without executing it"
        )
        fix = "convert it once with PyTorch: torch.save(torch.load(path), path)"
        raise error(UnpicklingError, "load", rule, fix=fix)
    if not start.startswith(b"PK"):
        raise corrupted("the file is not a checkpoint: it does not begin as a zip archive")
