"""The zip container of PyTorch's checkpoints: named records, stored as they are and aligned to 64 bytes.

`Writer` appends records to a stream; `Reader` finds them again and reads many at once. Read next:
serialization/pickling.py.
"""

from __future__ import annotations

import contextlib
import io
import os
import struct
import threading
import zipfile
import zlib
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pickle import UnpicklingError
from typing import Any

import numpy as np

from cleargrad.errors import error
from cleargrad.storage import Memory

ALIGNMENT = 64
HEADER = 30  # bytes of a record's local header before its name
SOME_DATE = (1980, 1, 1, 0, 0, 0)  # equal contents give equal files
LEGACY_START = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."  # the magic number of PyTorch before 1.6


class Writer:
    """Appends records to a zip archive on a stream."""

    def __init__(self, stream: Any, folder: str):
        self.zip = zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED)
        self.folder = folder

    def write(self, name: str, content: Any) -> None:
        """One record: bytes, or an array of bytes, which is not copied."""
        entry = zipfile.ZipInfo(f"{self.folder}/{name}", SOME_DATE)
        entry.file_size = memoryview(content).nbytes
        entry.extra = self.padding(entry)
        with self.zip.open(entry, "w") as record:
            record.write(content)

    def padding(self, entry: zipfile.ZipInfo) -> bytes:
        """An extra field that makes the record's content start at a multiple of the alignment."""
        wide = 20 if entry.file_size * 1.05 > zipfile.ZIP64_LIMIT else 0  # the field zipfile adds by itself
        start = self.zip.start_dir + HEADER + len(entry.filename.encode()) + wide + 4
        return struct.pack("<2sH", b"FB", -start % ALIGNMENT).ljust(4 + -start % ALIGNMENT, b"Z")

    def close(self) -> None:
        self.zip.close()


def corrupted(rule: str, **facts: object) -> Exception:
    fix = "the file is damaged or was not written to its end; use an older checkpoint"
    return error(UnpicklingError, "load", rule, fix=fix, **facts)


class Reader:
    """Reads records of a zip archive from a seekable stream."""

    def __init__(self, stream: Any):
        self.stream = stream
        self.lock = threading.Lock()
        refuse_other_formats(stream)
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

    def read(self, name: str) -> bytes:
        entry = self.entry(name)
        content = bytearray(self.checked_size(entry))
        self.read_into(entry, content)
        return bytes(content)

    def checked_size(self, entry: zipfile.ZipInfo) -> int:
        """The size a record claims, when the file is long enough for it."""
        with self.lock:
            end = self.stream.seek(0, os.SEEK_END)
        if entry.header_offset + entry.file_size > end:
            raise corrupted(f"the record {entry.filename!r} claims to be longer than the file")
        return entry.file_size

    def read_into(self, entry: zipfile.ZipInfo, content: Any) -> None:
        view = memoryview(content)
        self.fill(view, self.start(entry))
        if zlib.crc32(view) != entry.CRC:
            raise corrupted(f"the checksum of the record {entry.filename!r} is wrong")

    def memories(self, names: Iterable[str], swapped: dict[str, int]) -> dict[str, Memory]:
        """Records as memory for tensors, read by a few threads; `swapped` says whose bytes to turn around."""
        entries = {name: self.entry(name) for name in names}
        found = {name: new_memory(self.checked_size(entry)) for name, entry in entries.items()}

        def read(name: str) -> None:
            self.read_into(entries[name], found[name])
            width = swapped.get(name, 1)
            if width > 1:
                found[name].view(f"u{width}").byteswap(inplace=True)

        if sum(memory.nbytes for memory in found.values()) < 1 << 20:
            for name in found:
                read(name)
        else:
            with ThreadPoolExecutor(min(4, os.cpu_count() or 1)) as pool:
                list(pool.map(read, found))
        return found

    def mapped(self, path: Any, names: Iterable[str]) -> dict[str, Memory]:
        """Records as memory mapped from the file: pages are read when touched, and writes stay private."""
        whole = np.memmap(path, BYTE_TYPE, "c")
        found = {}
        for name in names:
            entry = self.entry(name)
            start = self.start(entry)
            self.checked_size(entry)
            found[name] = whole[start : start + entry.file_size].view(Memory)
        return found


BYTE_TYPE = np.uint8


def new_memory(size: int) -> Memory:
    return np.empty(size, BYTE_TYPE).view(Memory)


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
        rule = "the file has PyTorch's format of before version 1.6, which cannot be read without executing it"
        fix = "convert it once with PyTorch: torch.save(torch.load(path), path)"
        raise error(UnpicklingError, "load", rule, fix=fix)
    if not start.startswith(b"PK"):
        raise corrupted("the file is not a checkpoint: it does not begin as a zip archive")
