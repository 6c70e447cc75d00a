"""Checks of privacy parameters, certified intervals and rounding, sums, and root finding."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import Any, TypeAlias, TypeGuard

import numpy as np
import numpy.typing as npt

from privopt.arguments import checked, shown

Array: TypeAlias = npt.NDArray[np.float64]
U = 2.0**-53  # unit roundoff of float64
_MIN_DELTA = 1e-300
_MAX_COUNT = 10**100  # releases; squares of their privacy loss stay in the range of float64
_SMALLEST_NOISE = 2.0**-80  # such noise is a subnormal float32 with probability 2^-46
SMALLEST = 2.0**-960
"""Replaces every smaller positive loss; far above the subnormal numbers of float64."""
_HALVINGS = 200
_STEPS = 240


def real(name: str, value: object) -> float:
    """Return ``value`` as a float; raise ValueError unless it is a real number and not NaN."""
    number = math.nan
    if type(value) is float:  # the usual case, without the slow check of an abstract type
        number = value
    elif _is_real(value):
        with suppress(OverflowError):  # of integers beyond float64
            number = float(value)
    if math.isnan(number):
        raise ValueError(f"{name} must be a real number, got {shown(value)}")
    return number


def check_epsilon(epsilon: object) -> float:
    """Return a privacy loss in ``[0, inf)``."""
    value = real("epsilon", epsilon)
    if not 0.0 <= value < math.inf:
        raise ValueError(f"epsilon must be non-negative and finite, got {shown(epsilon)}")
    return value


def check_delta(delta: object) -> float:
    """Return a probability in ``[0, 1)``."""
    value = real("delta", delta)
    if not 0.0 <= value < 1.0:
        raise ValueError(f"delta must lie in [0, 1), got {shown(delta)}")
    return value


def check_target_delta(delta: object) -> float:
    """Return a ``delta`` at which an epsilon can be computed: zero, or in ``[1e-300, 1)``."""
    value = check_delta(delta)
    if 0.0 < value < _MIN_DELTA:
        raise ValueError(
            f"delta must be 0 or at least {_MIN_DELTA}, below which float64 cannot resolve a "
            f"probability, got {shown(delta)}"
        )
    return value


def check_non_negative(name: str, number: object) -> float:
    """Return a number in ``[0, inf]``."""
    value = real(name, number)
    if value < 0.0:
        raise ValueError(f"{name} must be non-negative, got {shown(number)}")
    return value


def real_array(name: str, values: npt.ArrayLike) -> Array:
    """Return real numbers as a float64 array of any shape."""
    try:
        array = np.asarray(values)
        numeric = array.dtype.kind in "fiu" or all(_is_real(each) for each in array.flat)
        numbers = array.astype(np.float64) if numeric else None
    except (TypeError, ValueError, OverflowError):
        numbers = None
    if numbers is None:
        raise ValueError(f"{name} must be real numbers, got {shown(values)}")
    return numbers


def check_alpha(alpha: npt.ArrayLike, name: str = "alpha") -> Array:
    """Return type-I errors in ``[0, 1]`` as a float64 array of any shape."""
    values = real_array(name, alpha)
    if not np.all((values >= 0.0) & (values <= 1.0)):
        raise ValueError(f"{name} must lie in [0, 1], got {shown(alpha)}")
    return values


def check_count(name: str, value: object) -> int:
    """Return a number of repetitions."""
    if not _is_whole(value):
        raise ValueError(f"{name} must be a non-negative integer, got {shown(value)}")
    if not is_count(value):
        raise ValueError(f"{name} must be at most 1e100, got {shown(value)}")
    return int(value)


def _is_real(value: object) -> TypeGuard[Real]:
    return isinstance(value, Real) and not isinstance(value, bool)


@dataclass(frozen=True, repr=False)
class Interval:
    """Certified bounds of a non-negative number: ``lower <= truth <= upper``.

    An interval can be unpacked: ``lower, upper = guarantee.epsilon(1e-6)``. The *upper* end is the
    guarantee. The lower end bounds how loose it can be.

    Parameters
    ----------
    lower, upper : float
        ``0 <= lower <= upper <= inf``.
    reason : str
        The reason why the ends are farther apart than the requested accuracy; empty if they are
        not. It is ignored by comparisons.

    Examples
    --------
    >>> lower, upper = Interval(0.5, 0.75)
    >>> upper
    0.75
    >>> Interval(0.5, 0.75).width
    0.25
    """

    lower: float
    upper: float
    reason: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        lower, upper = real("lower", self.lower), real("upper", self.upper)
        if not 0.0 <= lower <= upper:
            raise ValueError(f"lower must lie in [0, upper], got [{shown(lower)}, {shown(upper)}]")
        object.__setattr__(self, "lower", lower)
        object.__setattr__(self, "upper", upper)

    def __iter__(self) -> Iterator[float]:
        yield self.lower
        yield self.upper

    def __repr__(self) -> str:
        reason = f", reason='{self.reason}'" if self.reason else ""
        return f"Interval(lower={shown(self.lower)}, upper={shown(self.upper)}{reason})"

    @property
    def width(self) -> float:
        """``upper - lower``; zero if both ends are infinite."""
        return 0.0 if self.lower == self.upper else self.upper - self.lower

    def contains(self, x: float) -> bool:
        """Return True if ``lower <= x <= upper``."""
        return self.lower <= x <= self.upper


def intersection(intervals: Iterable[Interval]) -> Interval:
    """Return the bounds that follow from several ones of the same number."""
    lower, upper = zip(*intervals, strict=True)
    return Interval(max(lower), min(upper))


@checked
def round_up(x: float) -> float:
    """Return the smallest float32 number that is not below ``x``, as a Python float.

    Rounding to nearest would lower a noise scale in half of the cases. The result is exact in
    float32 and float64, so the guarantee accounts for the number that the device uses. Zero and
    infinities are unchanged. Positive numbers below ``2^-80`` are raised to it: devices flush
    numbers below ``2^-126`` to zero, and noise with such a small scale would often be zero.

    Examples
    --------
    >>> round_up(0.1)
    0.10000000149011612
    >>> round_up(0.5)
    0.5
    """
    x = real("x", x)
    with np.errstate(over="ignore", under="ignore"):
        nearest = np.float32(x)
        if float(nearest) < x:  # a bare float32 would compare in float32
            nearest = np.nextafter(nearest, np.float32(np.inf))
    rounded = float(nearest)
    if math.isinf(rounded) and not math.isinf(x):
        raise ValueError(f"x must fit into float32, got {shown(x)}")
    if 0.0 < abs(rounded) < _SMALLEST_NOISE:
        return _SMALLEST_NOISE if x > 0.0 else 0.0
    return rounded


@checked
def round_down(x: float) -> float:
    """Return the largest float32 number that is not above ``x``: ``-round_up(-x)``.

    Examples
    --------
    >>> round_down(0.1)
    0.09999999403953552
    """
    return 0.0 - round_up(-real("x", x))


def next_up(x: float) -> float:
    """Return the next larger float; zero is unchanged."""
    return math.nextafter(x, math.inf) if x else 0.0


def weighted_sum(parts: Iterable[tuple[float, int]]) -> float:
    """Return ``sum of count * value``, to a relative ``2^-50`` if all terms have the same sign."""
    terms = [count * each for each, count in parts]
    try:
        return math.fsum(terms)
    except OverflowError:  # of a partial sum
        return math.copysign(math.inf, max(terms, key=abs))


def dot(first: npt.NDArray[Any], second: npt.NDArray[Any]) -> float:
    """Return ``sum_i x_i y_i`` on one thread.

    BLAS uses several from 10,000 numbers on, which wait for each other longer than they compute.
    """
    return float((first * second).sum())


def half_square(shift: float) -> float:
    """Return an upper bound of ``shift^2 / 2`` that is zero only for ``shift = 0``."""
    return max(0.5 * shift * shift, SMALLEST) if shift > 0.0 else 0.0


def bisect(holds: Callable[[float], bool], inside: float, outside: float) -> float:
    """Find by bisection a point near the boundary of the set where ``holds`` is true.

    ``holds(inside)`` is true and ``holds(outside)`` is false. The returned point was tested, so
    ``holds(result)`` is true even if rounding makes ``holds`` slightly non-monotone. The search
    stops at neighbouring floats, or after 200 halvings.
    """
    for _ in range(_HALVINGS):
        middle = 0.5 * (inside + outside)
        if middle in (inside, outside):
            break
        if holds(middle):
            inside = middle
        else:
            outside = middle
    return inside


def false_position(
    gap: Callable[[float], float],
    inside: float,
    outside: float,
    *,
    relative: float = 0.0,
    absolute: float = 0.0,
) -> tuple[float, float]:
    """Reduce an interval with ``gap(inside) <= 0 < gap(outside)`` by guarded false position.

    Both returned points were tested, so their signs are certain for every ``gap``. Infinite values
    are allowed and lead to halving, and so do two steps that did not halve the interval. The last
    steps overshoot the estimate, so that the final interval is no wider than the tolerance.

    The sign changes once between the two points, up to rounding. The points may be in any order.
    The search ends once they are within ``absolute + relative max(|inside|, |outside|)``.
    """
    low, high, last = gap(inside), gap(outside), 0
    older_width = previous_width = math.inf
    for _ in range(_STEPS):
        width = outside - inside
        tolerance = absolute + relative * max(abs(inside), abs(outside))
        if abs(width) <= tolerance:
            break
        guess, slow = 0.5, abs(width) > 0.5 * older_width
        if not slow and -math.inf < low < high < math.inf:
            guess = low / (low - high)
        older_width, previous_width = math.inf if slow else previous_width, abs(width)
        least = min(0.5, 0.5 * tolerance / abs(width))
        middle = inside + min(max(guess, least), 1.0 - least) * width
        if middle in (inside, outside):
            middle = inside + 0.5 * width
            if middle in (inside, outside):
                break
        value = gap(middle)
        if value <= 0.0:
            inside, low = middle, value
            high *= 0.5 if last < 0 else 1.0
            last = -1
        else:
            outside, high = middle, value
            low *= 0.5 if last > 0 else 1.0
            last = 1
    return inside, outside


SUM_TOLERANCE = 1e-9  # largest difference between a sum of probabilities and one


def is_noise(value: object) -> TypeGuard[float]:
    """Return True if ``value`` can be a noise multiplier: a real number, not negative, not NaN."""
    if not isinstance(value, Real) or isinstance(value, bool):
        return False
    try:
        return float(value) >= 0.0
    except OverflowError:  # an integer beyond float64
        return False


def is_rate(value: object) -> TypeGuard[float]:
    """Return True if ``value`` can be a probability: a real number in ``[0, 1]``."""
    return is_noise(value) and float(value) <= 1.0


def is_count(value: object) -> TypeGuard[int]:
    """Return True if ``value`` is a non-negative integer, at most 1e100."""
    return _is_whole(value) and int(value) <= _MAX_COUNT


def _is_whole(value: object) -> TypeGuard[int]:
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= 0


def is_batch(size: object, batch: object) -> bool:
    """Return True if ``batch`` of ``size`` records can be drawn."""
    return is_count(size) and is_count(batch) and int(batch) <= int(size) > 0


def tree_nodes(step_counts: object) -> int | None:
    """Return the number of nodes above a leaf of a binary tree, ``floor(log2 T) + 1``.

    For several trees, return the largest such number, because a record is part of one step of one
    tree. Return None if ``step_counts`` is neither a number of steps nor a list of such numbers.
    """
    trees = step_counts if isinstance(step_counts, list | tuple) else [step_counts]
    counts = [int(steps) for steps in trees if is_count(steps)]
    if len(counts) < len(trees):
        return None
    return max((steps.bit_length() for steps in counts), default=0)


def check_probabilities(probabilities: object) -> tuple[list[float], float] | None:
    """Return the probabilities of a public mixture and their missing mass, or None if invalid.

    A sum that differs from one by rounding only is normalised. A larger missing mass is rounded up.
    A sum that exceeds one by more is invalid.
    """
    if not isinstance(probabilities, list | tuple) or not all(map(is_rate, probabilities)):
        return None
    weights = [float(each) for each in probabilities]
    total = math.fsum(weights)
    missing = 1.0 - total
    if abs(missing) <= 2 * U * (1 + len(weights)):
        return [min(1.0, weight / total) for weight in weights], 0.0
    if not 0.0 < missing <= SUM_TOLERANCE:
        return None
    return weights, math.nextafter(missing, 1.0)


_RULES: tuple[tuple[str, Callable[[object], bool], str], ...] = (
    ("noise_multiplier", is_noise, "be non-negative"),
    ("sampling_probability", is_rate, "lie in [0, 1]"),
    ("noise_parameter", is_rate, "lie in [0, 1]"),
    (
        "probabilities",
        lambda each: check_probabilities(each) is not None,
        "lie in [0, 1] and add up to 1",
    ),
    ("count", _is_whole, "be a non-negative integer"),
    ("count", is_count, "be at most 1e100"),
)


def invalid_parameter(event: object) -> str:
    """Return a message about an invalid parameter of ``event`` or of its inner events, or ""."""
    while event is not None:
        for name, holds, rule in _RULES:
            value = getattr(event, name, None)
            if hasattr(event, name) and not holds(value):
                return f"{name} must {rule}, got {shown(value)}"
        event = getattr(event, "event", None)
    return ""
