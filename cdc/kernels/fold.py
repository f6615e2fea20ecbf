"""Folding for CRC-32 by carry-less multiplication, where the processor has it (x86 PCLMULQDQ).

A message is a polynomial over GF(2). 128 bits of it that lie D bits before others may be replaced
by a product with x**D modulo the CRC's polynomial, added (XOR) to those others; so 64 bytes a step
shrink to the last 16 without a change of the remainder (Gopal et al., "Fast CRC Computation for
Generic Polynomials Using PCLMULQDQ Instruction", 2009). What is left goes through the tables.
"""

from __future__ import annotations

from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from numba import config, types
from numba.core import cgutils
from numba.extending import intrinsic

BLOCK = 64  # bytes of a step

_POLYNOMIAL = 0xEDB88320
_I8, _I64, _INDEX = ir.IntType(8), ir.IntType(64), ir.IntType(32)
_VECTOR = ir.VectorType(_I64, 2)


def _available() -> bool:
    # Numba compiles for this processor unless it is told to compile for another one.
    if config.CPU_NAME or config.CPU_FEATURES is not None:
        return False
    try:
        return bool(llvm.get_host_cpu_features().get("pclmul", False))
    except RuntimeError:
        return False


FOLDS = _available()


def _power(n: int) -> int:
    # x**n modulo the polynomial, bits reflected, as the multiplication of reflected words wants it.
    value = 0x80000000
    for _ in range(n):
        value = value >> 1 ^ (_POLYNOMIAL if value & 1 else 0)
    return value << 1


def _constant(bits: int) -> ir.Constant:
    # Factors that carry both halves of 128 bits over ``bits`` bits.
    return ir.Constant(_VECTOR, [_power(bits + 32), _power(bits - 32)])


def _multiply(builder: Any, a: Any, b: Any, which: int) -> Any:
    function = cgutils.get_or_insert_function(
        builder.module, ir.FunctionType(_VECTOR, (_VECTOR, _VECTOR, _I8)), "llvm.x86.pclmulqdq"
    )
    return builder.call(function, (a, b, ir.Constant(_I8, which)))


def _fold(builder: Any, value: Any, factor: Any, onto: Any) -> Any:
    low, high = (_multiply(builder, value, factor, which) for which in (0x00, 0x11))
    return builder.xor(builder.xor(low, high), onto)


def _vectors(builder: Any, data: Any, at: Any) -> list[Any]:
    pointer = builder.bitcast(builder.gep(data, [at]), _VECTOR.as_pointer())
    places = (builder.gep(pointer, [ir.Constant(_INDEX, k)]) for k in range(4))
    return [builder.load(place, align=1) for place in places]


@intrinsic
def fold(typingctx: Any, array: Any, at: Any, blocks: Any, crc: Any) -> Any:
    """16 bytes (two int64) with the remainder of ``blocks`` >= 1 blocks at ``array[at]``.

    ``crc`` is the state before them; the state behind them is that of the 16 bytes from 0. The
    caller has proven the bounds, and that FOLDS holds.
    """

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        step = ir.Constant(_I64, BLOCK)
        start, end = args[1], builder.add(args[1], builder.mul(args[2], step))
        values = _vectors(builder, data, start)
        before = builder.insert_element(
            ir.Constant(_VECTOR, [0, 0]), args[3], ir.Constant(_INDEX, 0)
        )
        values[0] = builder.xor(values[0], before)
        entered = builder.block
        head = builder.append_basic_block("fold.head")
        body = builder.append_basic_block("fold.body")
        done = builder.append_basic_block("fold.done")
        builder.branch(head)
        builder.position_at_end(head)
        last = builder.phi(_I64)
        current = [builder.phi(_VECTOR) for _ in values]
        place = builder.add(last, step)
        builder.cbranch(builder.icmp_signed("<", place, end), body, done)
        builder.position_at_end(body)
        factor = _constant(4 * 128)
        folded = [
            _fold(builder, value, factor, onto)
            for value, onto in zip(current, _vectors(builder, data, place), strict=True)
        ]
        builder.branch(head)
        for phi, first, next_one in zip(
            [last, *current], [start, *values], [place, *folded], strict=True
        ):
            phi.add_incoming(first, entered)
            phi.add_incoming(next_one, body)
        builder.position_at_end(done)
        result, factor = current[0], _constant(128)
        for onto in current[1:]:
            result = _fold(builder, result, factor, onto)
        words = [builder.extract_element(result, ir.Constant(_INDEX, k)) for k in range(2)]
        return context.make_tuple(builder, signature.return_type, words)

    pair = types.UniTuple(types.int64, 2)
    return pair(array, types.int64, types.int64, types.int64), codegen
