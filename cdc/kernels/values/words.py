"""Unaligned little-endian loads and stores on byte arrays, and the 128-bit product.

The loads and stores do not go through array indexing, so each is guarded by two ordinary accesses
when NUMBA_BOUNDSCHECK is set: then an offset outside of the array raises IndexError as elsewhere.
"""

from __future__ import annotations

import os
from typing import Any

from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

_CHECK = os.environ.get("NUMBA_BOUNDSCHECK", "0") not in ("", "0")


def _pointer(context: Any, builder: Any, array_type: Any, array: Any, index: Any, bits: int) -> Any:
    data = context.make_array(array_type)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [index]), ir.IntType(bits).as_pointer())


def _loader(bits: int, result: Any) -> Any:
    def load(typing_context: Any, buf: Any, index: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            pointer = _pointer(context, builder, signature.args[0], args[0], args[1], bits)
            return builder.load(pointer, align=1)

        return result(buf, types.int64), codegen

    return intrinsic(load)


def _storer(bits: int, value: Any) -> Any:
    def store(typing_context: Any, out: Any, index: Any, word: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            pointer = _pointer(context, builder, signature.args[0], args[0], args[1], bits)
            builder.store(args[2], pointer, align=1)
            return context.get_dummy_value()

        return types.void(out, types.int64, value), codegen

    return intrinsic(store)


_load16 = _loader(16, types.uint16)
_load32 = _loader(32, types.uint32)
_load64 = _loader(64, types.uint64)
_store16 = _storer(16, types.uint16)
_store64 = _storer(64, types.uint64)


@njit(nogil=True, inline="always")
def load16(buf, i):  # type: ignore[no-untyped-def]
    """uint16 of ``buf[i:i+2]``."""
    if _CHECK:
        _ = buf[i] + buf[i + 1]
    return _load16(buf, i)


@njit(nogil=True, inline="always")
def load32(buf, i):  # type: ignore[no-untyped-def]
    """uint32 of ``buf[i:i+4]``."""
    if _CHECK:
        _ = buf[i] + buf[i + 3]
    return _load32(buf, i)


@njit(nogil=True, inline="always")
def load64(buf, i):  # type: ignore[no-untyped-def]
    """uint64 of ``buf[i:i+8]``."""
    if _CHECK:
        _ = buf[i] + buf[i + 7]
    return _load64(buf, i)


@njit(nogil=True, inline="always")
def store16(out, i, word):  # type: ignore[no-untyped-def]
    """Write a uint16 to ``out[i:i+2]``."""
    if _CHECK:
        _ = out[i] + out[i + 1]
    _store16(out, i, word)


@njit(nogil=True, inline="always")
def store64(out, i, word):  # type: ignore[no-untyped-def]
    """Write a uint64 to ``out[i:i+8]``."""
    if _CHECK:
        _ = out[i] + out[i + 7]
    _store64(out, i, word)


@intrinsic
def multiply_wide(typing_context, a, b):  # type: ignore[no-untyped-def]
    """High and low word of the product of two uint64."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        wide = ir.IntType(128)
        word = ir.IntType(64)
        product = builder.mul(builder.zext(args[0], wide), builder.zext(args[1], wide))
        high = builder.trunc(builder.lshr(product, ir.Constant(wide, 64)), word)
        return cgutils.pack_array(builder, [high, builder.trunc(product, word)])

    return types.UniTuple(types.uint64, 2)(types.uint64, types.uint64), codegen


@intrinsic
def trailing_zeros(typing_context, a):  # type: ignore[no-untyped-def]
    """Number of zero bits below the lowest one of a uint64 that is not 0."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.uint64), codegen
