"""Values from one dtype to another, as vector instructions.

Names of dtypes come in with a value, the value in the other dtype goes out. In registers booleans are i1 and
bfloat16 is an i16, the upper half of a float. Read next: devices/cpu/llvm/reading.py.
"""

from __future__ import annotations

from cleargrad.devices.cpu.llvm.text import Code, Val

# How each dtype looks in a register.
ELEMENTS = {
    "bool": "i1", "uint8": "i8", "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64",
    "float16": "half", "bfloat16": "i16", "float32": "float", "float64": "double",
}  # fmt: skip
NARROW = ("float16", "bfloat16")
FLOATS = ("float32", "float64")


def convert(code: Code, x: Val, source: str, target: str) -> Val:
    """x in another dtype, as PyTorch's `to` has it.

    Floats lose their fraction on the way to integers, and what does not fit wraps as long as it fits an int32
    (int64 for that target); beyond, as for NaN, the processor decides. Narrow floats go through float32.
    """
    if source == target:
        return x
    if source in NARROW:
        return convert(code, _widen(code, x, source), "float32", target)
    if target in NARROW:
        return _narrow(code, convert(code, x, source, "float32"), target)
    element = ELEMENTS[target]
    if source in FLOATS:
        return _from_float(code, x, target)
    if target == "bool":
        return code.compare("ne", x, code.const(0, x.type))
    unsigned = source in ("bool", "uint8")
    if target in FLOATS:
        return code.cast("uitofp" if unsigned else "sitofp", x, element)
    if int(element[1:]) < int(ELEMENTS[source][1:]):
        return code.cast("trunc", x, element)
    return code.cast("zext" if unsigned else "sext", x, element)


def _from_float(code: Code, x: Val, target: str) -> Val:
    if target in FLOATS:
        return code.cast("fpext" if target == "float64" else "fptrunc", x, ELEMENTS[target])
    if target == "bool":
        return code.compare("une", x, code.const(0.0, x.type))
    whole = code.cast("fptosi", x, "i64" if target == "int64" else "i32")
    # LLVM may invent a value for what does not fit, but then it must be the same one everywhere.
    whole = code.pure(whole.type, f"freeze {whole}")
    return code.cast("trunc", whole, ELEMENTS[target])


def _widen(code: Code, x: Val, source: str) -> Val:
    if source == "float16":
        return code.cast("fpext", x, "float")
    wide = code.cast("zext", x, "i32")
    return code.cast("bitcast", code.binary("shl", wide, code.const(16, wide.type)), "float")


def _narrow(code: Code, x: Val, target: str) -> Val:
    if target == "float16":
        return code.cast("fptrunc", x, "half")
    whole = code.cast("bitcast", x, "i32")
    sixteen = code.const(16, whole.type)
    high = code.binary("lshr", whole, sixteen)
    # Half of the last digit that stays, less one where that digit is even: ties go to even.
    odd = code.binary("and", high, code.const(1, whole.type))
    half = code.add(odd, code.const(0x7FFF, whole.type))
    rounded = code.binary("lshr", code.add(whole, half), sixteen)
    quiet = code.binary("or", high, code.const(0x40, whole.type))  # rounding could make NaN an infinity
    return code.cast("trunc", code.select(code.compare("uno", x, x), quiet, rounded), "i16")
