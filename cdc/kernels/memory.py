"""Reading, writing and copying bytes of ``uint8`` arrays in words.

Plain indexing costs a wrap-around test per byte; these go through LLVM loads and stores of 1 to
32 bytes at any alignment, little endian. They check nothing, as the callers have proven their
bounds; under ``NUMBA_BOUNDSCHECK=1`` each one checks and raises ``IndexError`` instead, and so
the suite runs them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import config, types
from numba.core import cgutils
from numba.extending import intrinsic

from cdc.kernels.compile import small

CHECKED = bool(config.BOUNDSCHECK)


def _address(context: Any, builder: Any, array_type: Any, array: Any, index: Any) -> Any:
    data = context.make_array(array_type)(context, builder, array).data
    return builder.gep(data, [index])


def _loader(bits: int, result: Any) -> Any:
    @intrinsic
    def load(typingctx: Any, array: Any, index: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            address = _address(context, builder, signature.args[0], args[0], args[1])
            pointer = builder.bitcast(address, ir.IntType(bits).as_pointer())
            value = builder.load(pointer, align=1)
            return builder.zext(value, ir.IntType(64)) if bits < 64 else value

        return result(array, types.int64), codegen

    return load


def _storer(bits: int) -> Any:
    @intrinsic
    def store(typingctx: Any, array: Any, index: Any, value: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            address = _address(context, builder, signature.args[0], args[0], args[1])
            word = args[2]
            if bits < 64:
                word = builder.trunc(word, ir.IntType(bits))
            pointer = builder.bitcast(address, ir.IntType(bits).as_pointer())
            builder.store(word, pointer, align=1)
            return context.get_dummy_value()

        return types.void(array, types.int64, types.int64), codegen

    return store


def _copier(size: int) -> Any:
    @intrinsic
    def move(typingctx: Any, source: Any, s: Any, target: Any, d: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            vector = ir.VectorType(ir.IntType(8), size)
            a = _address(context, builder, signature.args[0], args[0], args[1])
            b = _address(context, builder, signature.args[2], args[2], args[3])
            word = builder.load(builder.bitcast(a, vector.as_pointer()), align=1)
            builder.store(word, builder.bitcast(b, vector.as_pointer()), align=1)
            return context.get_dummy_value()

        return types.void(source, types.int64, target, types.int64), codegen

    return move


@intrinsic
def _memmove(typingctx: Any, array: Any, s: Any, d: Any, n: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        a = _address(context, builder, signature.args[0], args[0], args[1])
        b = _address(context, builder, signature.args[0], args[0], args[2])
        cgutils.raw_memmove(builder, b, a, args[3], 1)
        return context.get_dummy_value()

    return types.void(array, types.int64, types.int64, types.int64), codegen


@intrinsic
def _memcpy(typingctx: Any, source: Any, s: Any, target: Any, d: Any, n: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        a = _address(context, builder, signature.args[0], args[0], args[1])
        b = _address(context, builder, signature.args[2], args[2], args[3])
        cgutils.raw_memcpy(builder, b, a, args[4], 1)
        return context.get_dummy_value()

    return types.void(source, types.int64, target, types.int64, types.int64), codegen


_load8, _load16, _load32 = (_loader(bits, types.int64) for bits in (8, 16, 32))
_load64 = _loader(64, types.int64)
_store8, _store16, _store32, _store64 = (_storer(bits) for bits in (8, 16, 32, 64))
_copy16, _copy32 = _copier(16), _copier(32)


@small
def _check(array, index, size):  # type: ignore[no-untyped-def]
    if index < 0 or index + size > array.size:
        raise IndexError("access outside of the array")


@small
def load8(array, index):  # type: ignore[no-untyped-def]
    """The byte at ``index`` as int64."""
    if CHECKED:
        _check(array, index, 1)
    return _load8(array, index)


@small
def load16(array, index):  # type: ignore[no-untyped-def]
    """Two bytes, little endian, unsigned."""
    if CHECKED:
        _check(array, index, 2)
    return _load16(array, index)


@small
def load32(array, index):  # type: ignore[no-untyped-def]
    """Four bytes, little endian, unsigned."""
    if CHECKED:
        _check(array, index, 4)
    return _load32(array, index)


@small
def load64(array, index):  # type: ignore[no-untyped-def]
    """Eight bytes, little endian, as int64 (the bits of the unsigned value)."""
    if CHECKED:
        _check(array, index, 8)
    return _load64(array, index)


@small
def store8(array, index, value):  # type: ignore[no-untyped-def]
    """Write the low byte of an int64."""
    if CHECKED:
        _check(array, index, 1)
    _store8(array, index, value)


@small
def store16(array, index, value):  # type: ignore[no-untyped-def]
    """Write the two low bytes of an int64, little endian."""
    if CHECKED:
        _check(array, index, 2)
    _store16(array, index, value)


@small
def store32(array, index, value):  # type: ignore[no-untyped-def]
    """Write the four low bytes of an int64, little endian."""
    if CHECKED:
        _check(array, index, 4)
    _store32(array, index, value)


@small
def store64(array, index, value):  # type: ignore[no-untyped-def]
    """Write an int64, little endian."""
    if CHECKED:
        _check(array, index, 8)
    _store64(array, index, value)


@small
def copy_padded(source, s, target, d, n):  # type: ignore[no-untyped-def]
    """Copy ``n`` bytes in 32-byte words: reads and writes up to 31 bytes past both ends.

    For constants out of a padded blob into an output that has room; returns ``d + n``.
    """
    if CHECKED:
        _check(source, s, (n + 31) // 32 * 32)
        _check(target, d, (n + 31) // 32 * 32)
    i = np.int64(0)
    while i < n:
        _copy32(source, s + i, target, d + i)
        i += 32
    return d + n


@small
def copy16(source, s, target, d):  # type: ignore[no-untyped-def]
    """Copy 16 bytes."""
    if CHECKED:
        _check(source, s, 16)
        _check(target, d, 16)
    _copy16(source, s, target, d)


@small
def move(array, s, d, n):  # type: ignore[no-untyped-def]
    """Move ``n`` bytes within one array; the ranges may overlap."""
    if n <= 0:
        return
    if CHECKED:
        _check(array, s, n)
        _check(array, d, n)
    _memmove(array, s, d, n)


@small
def copy(source, s, target, d, n):  # type: ignore[no-untyped-def]
    """Copy ``n`` bytes of one array into another one."""
    if n <= 0:
        return
    if CHECKED:
        _check(source, s, n)
        _check(target, d, n)
    _memcpy(source, s, target, d, n)
