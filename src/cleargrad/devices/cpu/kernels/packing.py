"""Copies pieces of matrices into panels: the order in which the tiles of a product read them.

A panel of the right operand holds, for each k, neighbouring columns side by side; a strip of the left one
neighbouring rows. Each function here writes one such copy into the code of a kernel. What lies beside the matrix is
never read: at its edge the last column or row is read again, and what comes of it is dropped. Read next:
devices/cpu/kernels/gemm_tiles.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cleargrad.devices.cpu.llvm.jit import Kernel
from cleargrad.devices.cpu.llvm.text import SIZES, Code, Val, element_of, vector, width_of

PARAMETERS = [Val("%args", "ptr"), Val("%lo", "i64"), Val("%hi", "i64"), Val("%scratch", "ptr")]


@dataclass(frozen=True)
class Matrix:
    """A matrix in memory; a stride is in elements, and a literal 1 where that is compiled in."""

    start: Val
    element: str
    along_k: Val
    across: Val  # from row to row of the left operand, from column to column of the right one


class ProductCode(Code):
    """Code with what kernels of products share: named arguments and lanes of vectors."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__()
        self.places = {name: place for place, name in enumerate(names)}

    def word(self, name: str, type: str = "i64") -> Val:
        """An argument by its name."""
        place = self.at(PARAMETERS[0], self.integer(self.places[name]), "i64")
        return self.pure(type, f"load {type}, ptr {place.name}, align 8, !invariant.load !{{}}")

    def opposite(self, condition: Val) -> Val:
        return self.binary("xor", condition, Val("true", "i1"))

    def least(self, a: Val, b: Val) -> Val:
        return self.intrinsic("smin", "i64", a, b)

    def most(self, a: Val, b: Val) -> Val:
        return self.intrinsic("smax", "i64", a, b)

    def shuffle(self, a: Val, b: Val, lanes: Sequence[int]) -> Val:
        """Lanes of two vectors; those of the second are numbered on from those of the first."""
        mask = ", ".join(f"i32 {lane}" for lane in lanes)
        type = vector(element_of(a.type), len(lanes))
        return self.pure(type, f"shufflevector {a}, {b}, <{len(lanes)} x i32> <{mask}>")

    def masked_load(self, pointer: Val, type: str, count: Val) -> Val:
        """The first `count` elements of a vector in memory, zeros behind them."""
        width, element = width_of(type), element_of(type)
        if width == 1:
            return self.load(pointer, type)
        numbers = Val(f"<{', '.join(f'i32 {lane}' for lane in range(width))}>", vector("i32", width))
        least = self.pure(
            "i32", f"trunc {self.most(self.least(count, self.integer(width)), self.integer(0))} to i32"
        )
        mask = self.compare("slt", numbers, self.splat(least, width))
        short = {"float": "f32", "double": "f64"}[element]
        self.declared.add(
            f"declare {type} @llvm.masked.load.v{width}{short}.p0(ptr, i32, {mask.type}, {type})"
        )
        operands = f"{pointer}, i32 {SIZES[element]}, {mask}, {self.const(0, type)}"
        return self.now(type, f"call {type} @llvm.masked.load.v{width}{short}.p0({operands})")

    def joined(self, places: list[Val], element: str, width: int, count: Val | None) -> Val:
        """Short vectors from several places as one; of each only `count` elements, if that is given."""
        type = vector(element, width)
        parts = [self.load(p, type) if count is None else self.masked_load(p, type, count) for p in places]
        while len(parts) > 1:
            lanes = range(2 * width_of(parts[0].type))
            parts = [self.shuffle(a, b, lanes) for a, b in zip(parts[::2], parts[1::2], strict=True)]
        return parts[0]

    def prefetch(self, place: Val, cache: int) -> None:
        """Asks for a line of memory, up to this cache; it is no error if there is no such memory."""
        self.declared.add("declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")
        self.do(f"call void @llvm.prefetch.p0({place}, i32 0, i32 {4 - cache}, i32 1)")

    def product(self, a: Val, b: Val) -> Val:
        """An offset: what is multiplied by a literal 1 stays as it is."""
        if a.name == "1" or b.name == "1":
            return b if a.name == "1" else a
        return self.mul(a, b)


def transpose(code: ProductCode, rows: list[Val]) -> list[Val]:
    """As many vectors as each has lanes, as the columns of the square they make.

    First inside pieces of 16 bytes, where processors have instructions for it, then whole pieces change places.
    """
    width, inside = len(rows), piece_of(rows[0].type)
    groups = [rows[first : first + inside] for first in range(0, width, inside)]
    rows = [row for group in groups for row in transpose_inside(code, group)]
    distance = inside
    while distance < width:
        rows = swap_pieces(code, rows, distance)
        distance *= 2
    return rows


def piece_of(type: str) -> int:
    """How many elements are 16 bytes, or all where a vector has fewer."""
    return min(width_of(type), 16 // SIZES[element_of(type)])


def transpose_inside(code: ProductCode, rows: list[Val]) -> list[Val]:
    """The columns of each square that pieces of 16 bytes, one from each row, make."""
    width = width_of(rows[0].type)
    pieces = range(0, width, len(rows))

    def mixed(a: Val, b: Val, lanes: tuple[int, ...]) -> Val:
        """These lanes of every piece, where those of b have their number plus `width`."""
        return code.shuffle(a, b, [piece + lane for piece in pieces for lane in lanes])

    if len(rows) == 1:
        return rows
    if len(rows) == 2:
        return [mixed(rows[0], rows[1], (lane, width + lane)) for lane in (0, 1)]
    a, b, c, d = rows
    low, high = (0, width, 1, width + 1), (2, width + 2, 3, width + 3)
    front, back = (0, 1, width, width + 1), (2, 3, width + 2, width + 3)
    pairs = [(mixed(a, b, half), mixed(c, d, half)) for half in (low, high)]
    return [mixed(*pair, half) for pair in pairs for half in (front, back)]


def swap_pieces(code: ProductCode, rows: list[Val], distance: int) -> list[Val]:
    """Exchanges pieces of `distance` lanes between rows that lie as far apart."""
    width, result = len(rows), list(rows)
    for one in range(width):
        if one & distance:
            continue
        other = one | distance
        a, b = rows[one], rows[other]
        result[one] = code.shuffle(
            a, b, [x if not x & distance else width + x - distance for x in range(width)]
        )
        result[other] = code.shuffle(
            a, b, [x + distance if not x & distance else width + x for x in range(width)]
        )
    return result


def pack_panel(
    code: ProductCode, source: Matrix, target: Val, lanes: int, vectors: int, columns: Val, depth: Val
) -> None:
    """Copies `columns` (at most lanes · vectors) columns of `depth` elements, k by k.

    Memory for a multiple of `lanes` k must lie at the target.
    """
    if source.across.name == "1":
        pack_rows_of_panel(code, source, target, lanes, vectors, columns, depth)
    elif source.along_k.name == "1":
        pack_by_transposing(code, source, target, lanes, vectors, columns, depth)
    else:
        pack_single_elements(code, source, target, lanes * vectors, columns, depth)


def pack_rows_of_panel(
    code: ProductCode, source: Matrix, target: Val, lanes: int, vectors: int, columns: Val, depth: Val
) -> None:
    type, width = vector(source.element, lanes), code.integer(lanes * vectors)
    full = code.compare("sge", columns, width)
    for whole, condition in ((True, full), (False, code.opposite(full))):
        with code.when(condition), code.loop(code.integer(0), depth) as k:
            row = code.at(source.start, code.mul(k, source.along_k), source.element)
            to = code.at(target, code.mul(k, width), source.element)
            for number in range(vectors):
                shift = code.integer(number * lanes)
                place = code.at(row, shift, source.element)
                value = (
                    code.load(place, type)
                    if whole
                    else code.masked_load(place, type, code.sub(columns, shift))
                )
                code.store(value, code.at(to, shift, source.element))


def pack_by_transposing(
    code: ProductCode, source: Matrix, target: Val, lanes: int, vectors: int, columns: Val, depth: Val
) -> None:
    """Reads pieces of 16 bytes along k, from columns that lie a piece apart in the panel.

    So joined, they need only be transposed inside the pieces.
    """
    last, inside = code.sub(columns, code.integer(1)), piece_of(vector(source.element, lanes))
    evenly = code.binary("and", depth, code.integer(-inside))
    with code.loop(code.integer(0), code.integer(vectors)) as group:
        first = code.mul(group, code.integer(lanes))
        starts = []
        for lane in range(lanes):
            column = code.least(code.add(first, code.integer(lane)), last)
            starts.append(code.at(source.start, code.mul(column, source.across), source.element))
        there = code.at(target, first, source.element)
        for whole in (True, False):
            begin, end = (code.integer(0), evenly) if whole else (evenly, depth)
            with code.loop(begin, end, inside) as k:
                left = None if whole else code.sub(depth, k)
                places = [code.at(start, k, source.element) for start in starts]
                rows = [
                    code.joined(places[row::inside], source.element, inside, left) for row in range(inside)
                ]
                for number, row in enumerate(transpose_inside(code, rows)):
                    step = code.mul(code.add(k, code.integer(number)), code.integer(lanes * vectors))
                    code.store(row, code.at(there, step, source.element))


def pack_single_elements(
    code: ProductCode, source: Matrix, target: Val, width: int, columns: Val, depth: Val
) -> None:
    last = code.sub(columns, code.integer(1))
    with code.loop(code.integer(0), depth) as k:
        row = code.at(source.start, code.mul(k, source.along_k), source.element)
        to = code.at(target, code.mul(k, code.integer(width)), source.element)
        with code.loop(code.integer(0), code.integer(width)) as column:
            place = code.at(row, code.mul(code.least(column, last), source.across), source.element)
            code.store(code.load(place, source.element), code.at(to, column, source.element))


def reach(height: int, lanes: int) -> int:
    """How many neighbours `copy_neighbours` reads for each k: more than it needs where one vector is enough."""
    return 1 << (height - 1).bit_length() if height <= lanes else height


def copy_neighbours(
    code: ProductCode, source: Matrix, target: Val, height: int, lanes: int, depth: int
) -> None:
    """Copies rows that lie side by side, k by k.

    A vector with lanes too many is stored as it is: the next k is stored over them. What lies behind the last k
    must stay, so that it is copied in pieces that fit.
    """
    for k in range(depth):
        line = code.at(source.start, code.mul(code.integer(k), source.along_k), source.element)
        place, done = code.at(target, code.integer(k * height), source.element), 0
        while done < height:
            fitting = min(lanes, 1 << (height - done).bit_length() - 1)
            width = reach(height, lanes) if k < depth - 1 and height <= lanes else fitting
            value = code.load(
                code.at(line, code.integer(done), source.element), vector(source.element, width)
            )
            code.store(value, code.at(place, code.integer(done), source.element))
            done += width


def right_packer(
    element: str, lanes: int, vectors: int, right: str, batches: int
) -> tuple[Kernel, list[str]]:
    """The kernel that packs the right operand for all, panel by panel, and its arguments."""
    names = ["right", "target", "n", "k", "right_k", "right_column", "panels", "panel_size"]
    names += [f"{what}_{axis}" for axis in range(batches) for what in ("batch", "right")]
    code, width = ProductCode(names), lanes * vectors
    with code.loop(PARAMETERS[1], PARAMETERS[2]) as unit:
        panel = code.binary("urem", unit, code.word("panels"))
        number = code.binary("udiv", unit, code.word("panels"))
        start = code.word("right", "ptr")
        for axis in reversed(range(batches)):
            index = number if axis == 0 else code.binary("urem", number, code.word(f"batch_{axis}"))
            number = number if axis == 0 else code.binary("udiv", number, code.word(f"batch_{axis}"))
            start = code.at(start, code.mul(index, code.word(f"right_{axis}")), element)
        along = code.integer(1) if right == "k" else code.word("right_k")
        across = code.integer(1) if right == "column" else code.word("right_column")
        column = code.mul(panel, code.integer(width))
        columns = code.least(code.sub(code.word("n"), column), code.integer(width))
        matrix = Matrix(code.at(start, code.product(column, across), element), element, along, across)
        target = code.at(code.word("target", "ptr"), code.mul(unit, code.word("panel_size")), element)
        pack_panel(code, matrix, target, lanes, vectors, columns, code.word("k"))
    code.do("ret void")
    return Kernel(code.function("kernel", PARAMETERS), tuple(code.declared)), names
