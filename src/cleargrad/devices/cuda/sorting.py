"""Sorting on the GPU: every tile of a row is sorted by a block of threads, then tiles are merged pair by pair.

A value becomes a whole number of 64 bits that orders as it does, NaN last; of equal ones the first comes first.
In a merge every element finds its place by itself: behind those of its own run, and behind those of the other
run that a binary search counts. Read next: devices/cuda/triton_code.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cleargrad.devices.cuda.program import new_array
from cleargrad.devices.cuda.text import FLOATS, NARROW, STORED, loaded
from cleargrad.devices.cuda.written import start, start_each
from cleargrad.schedule.formulas import kind_of

TILE = 1024  # elements that a block sorts

TILES = """
SHARED(unsigned long long, key, {tile})
SHARED(int, from, {tile})
const {T}* in = (const {T}*)words.w[0];
unsigned long long* keys = (unsigned long long*)words.w[1];
i64* order = (i64*)words.w[2];
const i64 n = words.w[3], tiles = words.w[4];
const i64 row = blockIdx.x / tiles * n, begin = blockIdx.x % tiles * {tile};
PHASE
for (int k = threadIdx.x; k < {tile}; k += {threads}) {{
  unsigned long long made = ~0ull;
  if (begin + k < n) {{
    {key}
  }}
  key[k] = made;
  from[k] = k;
}}
END
for (int size = 2; size <= {tile}; size *= 2) for (int step = size / 2; step > 0; step /= 2) {{
PHASE
const int one = 2 * step * (threadIdx.x / step) + threadIdx.x % step, other = one + step;
const unsigned long long a = key[one], b = key[other];
const bool apart = a > b || (a == b && from[one] > from[other]);
if (apart == ((one & size) == 0)) {{
  const int held = from[one];
  key[one] = b;
  key[other] = a;
  from[one] = from[other];
  from[other] = held;
}}
END
}}
PHASE
for (int k = threadIdx.x; k < {tile}; k += {threads}) if (begin + k < n) {{
  keys[row + begin + k] = key[k];
  order[row + begin + k] = begin + from[k];
}}
END
"""

MERGE = """
const unsigned long long* keys = (const unsigned long long*)words.w[0];
const i64* order = (const i64*)words.w[1];
const i64 n = words.w[4], width = words.w[5];
const i64 row = i / n * n, at = i % n, run = at / width;
const unsigned long long key = keys[i];
i64 low = (run ^ 1) * width, high = low + width, place = at;
if (high > n) high = n;
if (low < n) {
  const i64 first = low;
  while (low < high) {
    const i64 middle = (low + high) / 2;
    if (keys[row + middle] < key || (run % 2 && keys[row + middle] == key)) low = middle + 1;
    else high = middle;
  }
  place = run / 2 * 2 * width + at % width + (low - first);
}
((unsigned long long*)words.w[2])[row + place] = key;
((i64*)words.w[3])[row + place] = order[i];
"""


def key_of(kind: str, descending: bool, unsigned: bool) -> str:
    """C++ that makes the key of in[row + begin + k]."""
    value = loaded("in[row + begin + k]", kind)
    if kind in (*FLOATS, *NARROW):
        type, bits, sign = (
            ("double", "unsigned long long", 63) if kind == "float64" else ("float", "unsigned", 31)
        )
        text = f"""const {type} x = {value};
if (x == x) {{
  const {bits} found = x == 0 ? 0 : ({bits})bits_of(x);
  made = found >> {sign} ? ({bits})~found : ({bits})(found | ({bits})1 << {sign});
}}"""
    else:
        flip = "" if unsigned or kind in ("bool", "uint8") else f" ^ {hex(1 << 63)}ull"
        text = f"made = (unsigned long long)(i64){value}{flip};"
    return text + ("\nmade = ~made;" if descending else "")


def sorted_order(
    driver: Any, rows: np.ndarray, descending: bool = False, unsigned: bool = False
) -> np.ndarray:
    """The stable order of each row of a dense matrix, as indices into it."""
    runtime, (count, n) = driver.runtime, rows.shape
    kind = kind_of(rows.dtype)
    order = new_array(runtime, rows.shape, np.dtype(np.int64))
    if not rows.size:
        return order
    keys = new_array(runtime, rows.shape, np.dtype(np.uint64))
    tile = min(TILE, max(2, 1 << (n - 1).bit_length()))
    tiles = -(-n // tile)
    body = TILES.format(tile=tile, threads=tile // 2, T=STORED[kind], key=key_of(kind, descending, unsigned))
    start(runtime, body, count * tiles, [rows, keys, order, n, tiles], tile // 2)
    width = tile
    while width < n:
        others = [new_array(runtime, x.shape, x.dtype) for x in (keys, order)]
        start_each(runtime, rows.size, MERGE, [keys, order, *others, n, width])
        keys, order = others
        width *= 2
    return order
