"""Four doubles at once: a number type for compiled kernels that is one vector register.

The compiler turns a plain loop into vector instructions only from about 16 passes on, and the loops over the documents
of a query are mostly shorter. A kernel that steps by `WIDTH` and adds, multiplies and divides values of this type gets
vector instructions whatever the length; machines without registers that wide take two or four instructions for one.

    a = load(place(array), i)               # array[i : i + 4], of a contiguous vector of float64
    store(place(b), i, 2.0 * a + a)         # a number among fours is taken four times
    total(a)                                # the sum of the four
"""

from __future__ import annotations

import operator
from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import extending, njit, types
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import lower_builtin, models, register_model
from numba.np.arrayobj import make_array

from luce.numerics.fast_exp import LN2_HIGH, LN2_LOW, LOG2_E, ROUNDING, near_zero

__all__ = ["WIDTH", "exp", "first_lanes", "load", "place", "splat", "store", "total", "whole_fours"]

intrinsic: Any = extending.intrinsic
"""Its own type does not know that callers leave out the first argument."""
WIDTH = 4
_VECTOR = ir.VectorType(ir.DoubleType(), WIDTH)
_FLAGS = ("contract",)
"""A product and a sum may become one instruction; order, NaN and infinity stay what they are."""


class Four(types.Type):  # type: ignore[misc]
    """The type of four doubles at once, in the eyes of the compiler."""

    def __init__(self) -> None:
        super().__init__(name="Four")


four = Four()
_PLACE = types.CPointer(types.float64)


@register_model(Four)
class _FourModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, _VECTOR)


class _Arithmetic(AbstractTemplate):  # type: ignore[misc]
    def generic(self, args: Any, kws: Any) -> Any:
        if len(args) == 2 and four in args and all(kind in (four, types.float64) for kind in args):
            return signature(four, *args)
        return None


def _spread(builder: Any, value: Any) -> Any:
    if value.type == _VECTOR:
        return value
    lane = ir.IntType(32)
    one = builder.insert_element(ir.Constant(ir.VectorType(value.type, WIDTH), ir.Undefined), value, lane(0))
    return builder.shuffle_vector(one, one, ir.Constant(ir.VectorType(lane, WIDTH), [0] * WIDTH))


def _define(function: Any, instruction: str) -> None:
    infer_global(function)(type(f"_{function.__name__}", (_Arithmetic,), {}))

    def lower(context: Any, builder: Any, _: Any, args: Any) -> Any:
        a, b = (_spread(builder, value) for value in args)
        return getattr(builder, instruction)(a, b, flags=_FLAGS)

    for kinds in ((four, four), (four, types.float64), (types.float64, four)):
        lower_builtin(function, *kinds)(lower)


for _function, _instruction in (
    (operator.add, "fadd"),
    (operator.sub, "fsub"),
    (operator.mul, "fmul"),
    (operator.truediv, "fdiv"),
):
    _define(_function, _instruction)


def _at(builder: Any, pointer: Any, index: Any) -> Any:
    return builder.bitcast(builder.gep(pointer, [index]), _VECTOR.as_pointer())


@intrinsic
def place(typing_context: Any, array: Any) -> Any:
    """Where a contiguous vector of float64 starts: read and written as `place(array)[i]`, by `load` and by `store`.

    Arrays are counted wherever they are handed on, which takes longer than a short loop; places are not. A place is
    good only while somebody holds the array: take it of an argument, never of an array that the function made.
    """
    if not isinstance(array, types.Array) or (array.dtype, array.ndim, array.layout) != (types.float64, 1, "C"):
        return None

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return make_array(signature.args[0])(context, builder, args[0]).data

    return _PLACE(array), code


@intrinsic
def load(typing_context: Any, place: Any, index: Any) -> Any:
    """The four numbers from `place[index]` on; bounds are not checked."""
    if place != _PLACE:
        return None

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load(_at(builder, *args), align=8)

    return four(place, types.intp), code


@intrinsic
def store(typing_context: Any, place: Any, index: Any, value: Any) -> Any:
    """Write four numbers from `place[index]` on; bounds are not checked."""
    if place != _PLACE or value != four:
        return None

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.store(args[2], _at(builder, *args[:2]), align=8)
        return context.get_dummy_value()

    return types.void(place, types.intp, value), code


@intrinsic
def splat(typing_context: Any, value: Any) -> Any:
    """The same number four times."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _spread(builder, args[0])

    return four(types.float64), code


@intrinsic
def total(typing_context: Any, value: Any) -> Any:
    """The sum of the four, first with third and second with fourth."""
    if value != four:
        return None

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lane = ir.IntType(32)
        parts = [builder.extract_element(args[0], lane(k)) for k in range(WIDTH)]
        return builder.fadd(builder.fadd(parts[0], parts[2]), builder.fadd(parts[1], parts[3]))

    return types.float64(four), code


@intrinsic
def first_lanes(typing_context: Any, count: Any) -> Any:
    """1 in the first `count` of the four, all or none of them where it is above 4 or below 0, and 0 in the others."""
    if not isinstance(count, types.Integer):
        return None

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        whole = ir.VectorType(ir.IntType(64), WIDTH)
        ones, zeros = (ir.Constant(_VECTOR, [value] * WIDTH) for value in (1.0, 0.0))
        among = builder.icmp_signed("<", ir.Constant(whole, list(range(WIDTH))), _spread(builder, args[0]))
        return builder.select(among, ones, zeros)

    return four(types.int64), code


@intrinsic
def _power_of_two(typing_context: Any, value: Any) -> Any:
    """2 to the whole number that stands in the lowest bits of each of the four."""
    if value != four:
        return None

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        whole = ir.VectorType(ir.IntType(64), WIDTH)
        biased = builder.add(builder.bitcast(args[0], whole), ir.Constant(whole, [1023] * WIDTH))
        return builder.bitcast(builder.shl(biased, ir.Constant(whole, [52] * WIDTH)), _VECTOR)

    return four(four), code


@njit(nogil=True, cache=True, error_model="numpy")
def exp(x):  # type: ignore[no-untyped-def]
    """`exp(x)` of four numbers between -700 and 700, to 1e-15, as `fast_exp` does it."""
    shifted = x * LOG2_E + ROUNDING
    k = shifted - ROUNDING
    r = x - k * LN2_HIGH - k * LN2_LOW
    return near_zero(r) * _power_of_two(shifted)


@njit(nogil=True, cache=True, error_model="numpy")
def whole_fours(n):  # type: ignore[no-untyped-def]
    """The least number above n that is a multiple of 4, so that fours around place n are inside."""
    return (n // WIDTH + 1) * WIDTH
