"""Integers that depend on the block, as generated code computes with them.

A `FollowedValue` stands where generated code expects an array. It holds the executed blocks' values and how those of the
other blocks of each class are shifted against them. Sums, products with what is the same for all blocks, shifts and masks
keep that form; of a value that all lanes of a block share, any function is computed for every block. Comparisons give plain
arrays: blocks for which one would come out otherwise leave their class. Whatever else is done with such a value first makes
it plain, by taking the blocks with another value out of the class: nothing that is not known here can go unnoticed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin
from numpy.typing import NDArray

from .classes import LIMIT, BlockClasses, Integers, Steps

Values = Any
"""An array, or a `FollowedValue` in its place."""
_KINDS = (np.dtype(np.int32), np.dtype(np.uint32), np.dtype(np.int64), np.dtype(np.uint64))
_LARGEST = LIMIT // 2 - 1


def _canonical(coefficients: Integers, width: int) -> Integers:
    """Coefficients modulo the width of a value, near zero; one for each row, or for all, where they are the same."""
    if width == 4:
        coefficients = ((coefficients + 2**31) & (2**32 - 1)) - 2**31
    if coefficients.shape[1] > 1 and (coefficients == coefficients[:, :1]).all():
        coefficients = coefficients[:, :1]
    if coefficients.shape[0] > 1 and (coefficients == coefficients[:1]).all():
        coefficients = coefficients[:1]
    return coefficients


def followed(classes: BlockClasses, lanes: NDArray[Any], steps: Steps) -> Values:
    """A value with its shift, or the plain array where it does not differ between blocks."""
    kept = {function: _canonical(c, lanes.dtype.itemsize) for function, c in steps.items()}
    kept = {f: c for f, c in kept.items() if c.any() and f.range_over(classes) != (0, 0)}
    if not kept:
        return lanes
    shape = np.broadcast_shapes(lanes.shape, *(c.shape for c in kept.values()))
    return FollowedValue(classes, np.broadcast_to(lanes, shape), kept, 0, lanes.dtype)


def of_blocks(classes: BlockClasses, of_members: NDArray[Any]) -> Values:
    """A value that all lanes of a block share, from the values of the blocks that are in a class, shape ``(members,)``.

    Narrow integers come out extended to 32 bits, as registers hold them.
    """
    if of_members.dtype.kind in "iu" and of_members.dtype.itemsize < 4:
        of_members = of_members.astype(np.int32 if of_members.dtype.kind == "i" else np.uint32)
    if of_members.dtype not in _KINDS:
        return classes.stay_alike(of_members)[:, None]
    own, function = classes.function(of_members)
    return followed(classes, own[:, None], {function: np.ones((1, 1), np.int64)})


class FollowedValue(NDArrayOperatorsMixin):
    """Values of the executed blocks' lanes, and steps: what to add for the other blocks of a class.

    With ``right`` the lanes are integers whose quotient by that power of two is the value. It is left open as long as it can
    be: the quotient of a quotient moves with the block where the first alone does not.
    """

    __slots__ = ("classes", "dtype", "lanes", "right", "steps")

    def __init__(self, classes: BlockClasses, lanes: NDArray[Any], steps: Steps, right: int, dtype: Any) -> None:
        self.classes = classes
        self.lanes = lanes
        self.steps = steps
        self.right = right
        self.dtype = dtype

    # ---- as an array

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape ``(1 | classes, 1 | threads)``."""
        return self.lanes.shape

    @property
    def size(self) -> int:
        """Number of values."""
        return int(self.lanes.size)

    @property
    def ndim(self) -> int:
        """Two."""
        return self.lanes.ndim

    def settled(self) -> NDArray[Any]:
        """The plain values; blocks with other ones leave their class."""
        value = self.resolved()
        if isinstance(value, FollowedValue):
            self.classes.stay_equal(value.steps, 2**32 if self.dtype.itemsize == 4 else 0)
            return value.lanes
        plain: NDArray[Any] = value
        return plain

    def executed(self) -> NDArray[Any]:
        """Values of the executed blocks."""
        return (self.lanes >> self.right).astype(self.dtype) if self.right else self.lanes

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.asarray(self.settled(), dtype)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.settled(), name)

    def __getitem__(self, key: Any) -> Any:
        return self.settled()[key]

    def __bool__(self) -> bool:
        return bool(self.settled())

    def __len__(self) -> int:
        return len(self.lanes)

    def copy(self) -> FollowedValue:
        """Itself: nothing changes it."""
        return self

    def view(self, kind: Any) -> Values:
        """The same bits as another type."""
        dtype = np.dtype(kind)
        alike = dtype in _KINDS and dtype.itemsize == self.dtype.itemsize
        return self._as(dtype) if alike else self.settled().view(dtype)

    def astype(self, kind: Any, copy: bool = True) -> Values:
        """The values as another type."""
        if np.dtype(kind) == np.bool_:
            return self != self.dtype.type(0)
        return self._as(np.dtype(kind))

    def _as(self, dtype: np.dtype[Any]) -> Values:
        if dtype == self.dtype:
            return self
        if dtype not in _KINDS:
            return self.settled().astype(dtype)
        if self.right:
            if self._fits(dtype):
                return FollowedValue(self.classes, self.lanes, self.steps, self.right, dtype)
            resolved = self.resolved()
            return resolved._as(dtype) if isinstance(resolved, FollowedValue) else resolved.astype(dtype)
        if dtype.itemsize > self.dtype.itemsize:
            if self.shape[1] == 1 and not self._fits(self.dtype):
                unbounded = self._unbounded_by_member()
                values = unbounded.astype(self.dtype)
                if (values != unbounded).any():
                    return of_blocks(self.classes, values.astype(dtype))
            whole = self.whole()
            if whole is None:
                return self.settled().astype(dtype)
            return followed(self.classes, whole.astype(dtype), self.steps)
        return followed(self.classes, self.lanes.astype(dtype), self.steps)

    # ---- as integers without bound

    def by_member(self) -> NDArray[Any]:
        """Values of all blocks that are in a class, where all lanes of a block share them; shape ``(members,)``."""
        return (self._unbounded_by_member() >> self.right).astype(self.dtype)

    def _unbounded_by_member(self) -> Integers:
        """The same before their type wraps them around, and before an open quotient is taken."""
        classes = self.classes
        own = np.broadcast_to(self.lanes[:, 0], (classes.count,))[classes.rows]
        shift = classes.shift(tuple((f, np.broadcast_to(c[:, 0], (classes.count,))) for f, c in self.steps.items()))
        found: Integers = own.astype(np.int64) + shift
        return found

    def whole(self) -> Integers | None:
        """The lanes as integers to which shifts are added without wrapping around; None where they may be too large."""
        resolved = self.resolved()
        if resolved is not self:
            plain: Integers | None = (
                resolved.whole() if isinstance(resolved, FollowedValue) else resolved.astype(np.int64)
            )
            return plain
        values: Integers = self.lanes.astype(np.int64)
        low, high = int(np.iinfo(self.dtype).min), int(np.iinfo(self.dtype).max)
        if self.dtype.itemsize == 8:
            low, high = max(low, -_LARGEST), _LARGEST
            mask = self.classes.mask()
            wrong = (values < low) | (values > high)
            if (wrong if mask is None else wrong & mask).any():
                return None
        self.classes.stay_within(values, self.steps, low, high)
        return values

    def _fits(self, dtype: np.dtype[Any]) -> bool:
        """Whether the values of all lanes that run lie in the range of a type in every block, before one wraps them around."""
        reach = self.classes.reach(self.steps)
        if reach is None:
            return False
        low, high = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
        low, high = max(low << self.right, -_LARGEST), min(((high + 1) << self.right) - 1, _LARGEST)
        inside = (self.lanes + reach[0] >= low) & (self.lanes + reach[1] <= high)
        mask = self.classes.mask()
        return bool((inside if mask is None else inside | ~mask).all())

    def resolved(self) -> Values:
        """The value itself where the quotient was left open."""
        if not self.right:
            return self
        classes, quotient = self.classes, (self.lanes >> self.right).astype(self.dtype)
        if classes.reach(self.steps) is None:
            classes.stay_equal(self.steps, 0)
            return quotient
        steps = classes.of_rows(self.steps)
        return followed(
            classes, quotient, {classes.quotients(self.lanes, steps, self.right): np.ones((1, 1), np.int64)}
        )

    # ---- operations

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if function is np.where and len(args) == 3 and not kwargs and not isinstance(args[0], FollowedValue):
            return _where(self.classes, *args)
        return function(*_plain(args), **{name: _plain([value])[0] for name, value in kwargs.items()})

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, out: Any = None, **kwargs: Any) -> Any:
        in_place = out is None or (len(out) == 1 and out[0] is inputs[0])
        if method != "__call__" or kwargs or not in_place:
            return getattr(ufunc, method)(*_plain(inputs), **kwargs, **({} if out is None else {"out": out}))
        if any(getattr(x, "ndim", 0) > 2 for x in inputs):
            return ufunc(*_plain(inputs))
        operands = [x if isinstance(x, FollowedValue) else _as_lanes(x) for x in inputs]
        if out is not None and ufunc not in _SHIFTS:
            operands = [operands[0], *(x.astype(operands[0].dtype) for x in operands[1:])]
        handler = _LINEAR.get(ufunc)
        found = NotImplemented if handler is None else handler(self.classes, *operands)
        if found is NotImplemented and all(x.shape[1] == 1 for x in operands):
            return _of_whole_blocks(self.classes, ufunc, operands)
        if found is NotImplemented and ufunc in _OTHERS:
            found = _OTHERS[ufunc](self.classes, *operands)
        return ufunc(*_plain(operands)) if found is NotImplemented else found


def _as_lanes(value: Any) -> NDArray[Any]:
    array = np.asarray(value)
    return array if array.ndim == 2 else array.reshape(1, -1)


def _plain(values: Any) -> list[Any]:
    """Arguments of a function that knows no followed values."""
    return [
        value.settled()
        if isinstance(value, FollowedValue)
        else type(value)(_plain(value))
        if isinstance(value, list | tuple)
        else value
        for value in values
    ]


def _of_whole_blocks(classes: BlockClasses, ufunc: np.ufunc, operands: list[Any]) -> Values:
    """A function of values that all lanes of a block share, for every block."""
    arguments = [
        x.by_member() if isinstance(x, FollowedValue) else (x[0, 0] if x.shape[0] == 1 else x[:, 0][classes.rows])
        for x in operands
    ]
    result = ufunc(*arguments)
    if not isinstance(result, np.ndarray):
        return ufunc(*_plain(operands))
    return of_blocks(classes, result)


def _kind(x: Any, y: Any) -> np.dtype[Any] | None:
    """The type in which two operands meet, where its integers can be followed."""
    dtype = np.result_type(x.dtype, y.dtype)
    return dtype if dtype in _KINDS else None


def _parts(x: Any) -> tuple[NDArray[Any], Steps]:
    """Lanes and steps; those of a plain array are none."""
    return (x.lanes, x.steps) if isinstance(x, FollowedValue) else (x, {})


def _sum(a: Steps, b: Steps, sign: int = 1) -> Steps:
    total = dict(a)
    for function, coefficients in b.items():
        total[function] = total[function] + sign * coefficients if function in total else sign * coefficients
    return total


def _add_or_subtract(classes: BlockClasses, x: Any, y: Any, sign: int) -> Values:
    dtype = _kind(x, y)
    if dtype is None:
        return NotImplemented
    opened = _of_open_quotient(classes, x, y, sign, dtype)
    if opened is not None:
        return opened
    x, y = (_resolved(v).astype(dtype) for v in (x, y))
    (a, steps_a), (b, steps_b) = _parts(x), _parts(y)
    return followed(classes, a + b if sign > 0 else a - b, _sum(steps_a, steps_b, sign))


def _resolved(x: Any) -> Any:
    return x.resolved() if isinstance(x, FollowedValue) else x


def _of_open_quotient(classes: BlockClasses, x: Any, y: Any, sign: int, dtype: np.dtype[Any]) -> Values | None:
    """A sum with one open quotient is the quotient of a sum: floor(p / n) + y = floor((p + y * n) / n)."""
    x_open, y_open = (isinstance(v, FollowedValue) and v.right > 0 for v in (x, y))
    if x_open == y_open or (y_open and sign < 0):
        return None
    quotient, other = (x, y) if x_open else (y, x)
    if quotient.dtype != dtype or other.dtype != dtype:
        return None
    scale = 1 << quotient.right
    lanes = other.whole() if isinstance(other, FollowedValue) else other.astype(np.int64)
    if lanes is None:
        return None
    # an unsigned number that stands for a negative one would not fit, and is left to the resolved quotient
    reach = classes.reach(_parts(other)[1])
    if (
        reach is None
        or float(max(np.abs(lanes + reach[0]).max(), np.abs(lanes + reach[1]).max())) * scale >= _LARGEST / 2
    ):
        return None
    steps = {f: c * scale for f, c in _parts(other)[1].items()}
    total = FollowedValue(
        classes, quotient.lanes + sign * scale * lanes, _sum(quotient.steps, steps, sign), quotient.right, dtype
    )
    return total if total._fits(dtype) else None


def _multiply(classes: BlockClasses, x: Any, y: Any) -> Values:
    dtype = _kind(x, y)
    if dtype is None or (isinstance(x, FollowedValue) and isinstance(y, FollowedValue)):
        return NotImplemented
    value, factor = (x, y) if isinstance(x, FollowedValue) else (y, x)
    value = _resolved(value).astype(dtype)
    lanes, steps = _parts(value)
    factor = factor.astype(dtype)
    return followed(classes, lanes * factor, {f: c * factor.astype(np.int64) for f, c in steps.items()})


def _negate(classes: BlockClasses, x: Any) -> Values:
    lanes, steps = _parts(x.resolved())
    return followed(classes, -lanes, {f: -c for f, c in steps.items()})


def _invert(classes: BlockClasses, x: Any) -> Values:
    lanes, steps = _parts(x.resolved())
    return followed(classes, ~lanes, {f: -c for f, c in steps.items()})


def _one_amount(y: Any) -> int | None:
    """The number of places where all lanes shift by the same, and by fewer than a value has."""
    if isinstance(y, FollowedValue) or (y != y.flat[0]).any():
        return None
    amount = int(y.flat[0])
    return amount if 0 <= amount < 64 else None


def _left_shift(classes: BlockClasses, x: Any, y: Any) -> Values:
    amount = _one_amount(y)
    if amount is None or amount >= 8 * x.dtype.itemsize:
        return NotImplemented
    lanes, steps = _parts(x.resolved())
    return followed(classes, lanes << x.dtype.type(amount), {f: c << amount for f, c in steps.items()})


def _right_shift(classes: BlockClasses, x: Any, y: Any) -> Values:
    amount = _one_amount(y)
    if amount is None or amount >= 8 * x.dtype.itemsize:
        return NotImplemented
    if amount == 0:
        return x
    if x.right:
        return FollowedValue(classes, x.lanes, x.steps, min(x.right + amount, 62), x.dtype)
    whole = x.whole()
    if whole is None:
        return NotImplemented
    return FollowedValue(classes, whole, x.steps, min(amount, 62), x.dtype)


def _compare(ufunc: np.ufunc) -> Callable[[BlockClasses, Any, Any], Any]:
    def compare(classes: BlockClasses, x: Any, y: Any) -> Any:
        dtype = _kind(x, y)
        if dtype is None:
            return NotImplemented
        x, y = (_resolved(v).astype(dtype) for v in (x, y))
        numbers = [v.whole() if isinstance(v, FollowedValue) else _whole_of(v, classes) for v in (x, y)]
        if numbers[0] is None or numbers[1] is None:
            return NotImplemented
        distance, steps = numbers[0] - numbers[1], _sum(_parts(x)[1], _parts(y)[1], -1)
        if ufunc in (np.equal, np.not_equal):
            low = np.where(distance > 0, 1, np.where(distance < 0, -LIMIT, 0))
            high = np.where(distance < 0, -1, np.where(distance > 0, LIMIT, 0))
        else:
            # the smallest distance that counts as greater
            limit = 1 if ufunc in (np.less_equal, np.greater) else 0
            low, high = np.where(distance >= limit, limit, -LIMIT), np.where(distance >= limit, LIMIT, limit - 1)
        classes.stay_within(distance, steps, low, high)
        return ufunc(distance, 0)

    return compare


def _whole_of(values: NDArray[Any], classes: BlockClasses) -> Integers | None:
    """Plain values as integers without bound; None where one that counts is too large."""
    numbers = values.astype(np.int64)
    if values.dtype.itemsize == 8:
        mask = classes.mask()
        wrong = np.abs(numbers) > _LARGEST
        if values.dtype.kind == "u":
            wrong = wrong | (numbers < 0)
        if (wrong if mask is None else wrong & mask).any():
            return None
    return numbers


def _and(classes: BlockClasses, x: Any, y: Any) -> Values:
    """Bits of a followed value under a plain mask: what lies above the mask does not matter, below it neither."""
    dtype = _kind(x, y)
    if dtype is None:
        return NotImplemented
    if isinstance(x, FollowedValue) and isinstance(y, FollowedValue):
        y = y.settled()
    value, mask = (x, y) if isinstance(x, FollowedValue) else (y, x)
    value, mask = _resolved(value).astype(dtype), mask.astype(dtype)
    if not isinstance(value, FollowedValue):
        return value & mask
    bits = _bits_of(classes, mask)
    if bits and (mask == mask.flat[0]).all():
        result: Values = np.zeros((1, 1), dtype)
        for first, width in _runs(bits):
            result = result + _field(value, first, width)
        return result
    if bits == 0:
        return value.executed() & mask
    # a mask that differs between lanes: only what lies under it in any lane needs to be known
    first = (bits & -bits).bit_length() - 1
    field = _field(value, first, bits.bit_length() - first)
    return (field.settled() if isinstance(field, FollowedValue) else field) & mask


def _runs(bits: int) -> list[tuple[int, int]]:
    """First bit and number of bits of each stretch of ones.

    >>> _runs(0b1100111)
    [(0, 3), (5, 2)]
    """
    runs = []
    first = 0
    while bits >> first:
        first += ((bits >> first) & -(bits >> first)).bit_length() - 1
        width = (~(bits >> first) & ((bits >> first) + 1)).bit_length() - 1
        runs.append((first, width))
        first += width
    return runs


def _field(value: FollowedValue, first: int, width: int) -> Values:
    """Some neighbouring bits of a value, in their place."""
    dtype, unsigned = value.dtype, _unsigned(value.dtype)

    def places(number: int) -> NDArray[Any]:
        return np.array([[number]], unsigned)

    moved = _resolved(value.view(unsigned) >> places(first))
    if first + width < 8 * dtype.itemsize:
        moved = moved - (_resolved(moved >> places(width)) << places(width))
    return (moved << places(first)).view(dtype)


def _unsigned(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return np.dtype(np.uint32 if dtype.itemsize == 4 else np.uint64)


def _bits_of(classes: BlockClasses, mask: NDArray[Any]) -> int:
    """Bits that a mask has in any lane that runs."""
    running = classes.mask()
    unsigned = mask.view(_unsigned(mask.dtype))
    if running is not None:
        shape = np.broadcast_shapes(unsigned.shape, running.shape)
        unsigned = np.broadcast_to(unsigned, shape)[np.broadcast_to(running, shape)]
    return int(np.bitwise_or.reduce(unsigned, axis=None)) if unsigned.size else 0


def _or(classes: BlockClasses, x: Any, y: Any) -> Values:
    return NotImplemented if _kind(x, y) is None else x + y - (x & y)


def _xor(classes: BlockClasses, x: Any, y: Any) -> Values:
    dtype = _kind(x, y)
    if dtype is None:
        return NotImplemented
    common = x & y
    return x + y - common - common


def _minimum(classes: BlockClasses, x: Any, y: Any) -> Values:
    return _where(classes, x < y, x, y)


def _maximum(classes: BlockClasses, x: Any, y: Any) -> Values:
    return _where(classes, x < y, y, x)


def _absolute(classes: BlockClasses, x: Any) -> Values:
    return _where(classes, x < x.dtype.type(0), -x, x)


def _where(classes: BlockClasses, condition: NDArray[np.bool_], x: Any, y: Any) -> Values:
    """One of two values by a condition that is the same for all blocks of a class."""
    x, y = (v if isinstance(v, FollowedValue) else _as_lanes(v) for v in (x, y))
    condition = _as_lanes(condition)
    if condition.all() or not condition.any():
        chosen = x if condition.all() else y
        dtype = np.result_type(x.dtype, y.dtype)
        return chosen if chosen.dtype == dtype else chosen.astype(dtype)
    kind = _kind(x, y)
    if kind is None:
        return np.where(condition, *_plain([x, y]))
    x, y = (_resolved(v).astype(kind) for v in (x, y))
    (a, steps_a), (b, steps_b) = _parts(x), _parts(y)
    nothing = np.zeros((1, 1), np.int64)
    steps = {f: np.where(condition, steps_a.get(f, nothing), steps_b.get(f, nothing)) for f in {**steps_a, **steps_b}}
    return followed(classes, np.where(condition, a, b), steps)


_SHIFTS = (np.left_shift, np.right_shift)
_LINEAR: dict[np.ufunc, Callable[..., Any]] = {
    np.add: lambda classes, x, y: _add_or_subtract(classes, x, y, 1),
    np.subtract: lambda classes, x, y: _add_or_subtract(classes, x, y, -1),
    np.multiply: _multiply,
    np.negative: _negate,
    np.invert: _invert,
    np.left_shift: _left_shift,
}
"""What keeps the form of a value without any condition."""
_OTHERS: dict[np.ufunc, Callable[..., Any]] = {
    np.right_shift: _right_shift,
    np.bitwise_and: _and,
    np.bitwise_or: _or,
    np.bitwise_xor: _xor,
    np.minimum: _minimum,
    np.maximum: _maximum,
    np.absolute: _absolute,
    **{
        ufunc: _compare(ufunc)
        for ufunc in (np.less, np.less_equal, np.greater, np.greater_equal, np.equal, np.not_equal)
    },
}
"""What may take blocks out of their classes."""


def permuted(value: Any, pick: Callable[[NDArray[Any]], NDArray[Any]]) -> Values:
    """A value whose lanes each take that of another lane of their block, as ``pick`` says for arrays."""
    if not isinstance(value, FollowedValue):
        return pick(value)
    value = value.resolved()
    if not isinstance(value, FollowedValue):
        return pick(value)
    steps = {f: c if c.shape[1] == 1 else pick(c) for f, c in value.steps.items()}
    return followed(value.classes, pick(value.lanes), steps)
