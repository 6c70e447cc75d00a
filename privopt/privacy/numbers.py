"""Numbers of privacy: checks of arguments, intervals, rounding, sums beyond float64, roots.

A composition may hold 10^400 releases, and one release may tell 1e-400 of something: such a
number must become neither an error nor nothing.

The numbers inside events, and whether they make sense. Every question has an answer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from fractions import Fraction
from numbers import Integral, Real
from typing import TypeGuard

import numpy as np
import numpy.typing as npt

from privopt.arguments import checked, shown

_MIN_DELTA = 1e-300
_SMALLEST_NOISE = 2.0**-80  # of which noise is a subnormal number with probability 2^-46
SMALLEST = 2.0**-960
"""Stands for every positive loss below it: far above what float64 rounds coarsely."""
_HALVINGS = 200
_STEPS = 240


def real(name: str, value: object) -> float:
    """``value`` as a float; ValueError unless it is a real number, and not NaN."""
    number = math.nan
    if _is_real(value):
        with suppress(OverflowError):  # of integers, which know no infinity
            number = float(value)
    if math.isnan(number):
        raise ValueError(f"{name} must be a real number, got {shown(value)}")
    return number


def check_epsilon(epsilon: object) -> float:
    """A privacy loss in ``[0, inf)``."""
    value = real("epsilon", epsilon)
    if not 0.0 <= value < math.inf:
        raise ValueError(f"epsilon must be non-negative and finite, got {shown(epsilon)}")
    return value


def check_delta(delta: object) -> float:
    """A probability in ``[0, 1)``."""
    value = real("delta", delta)
    if not 0.0 <= value < 1.0:
        raise ValueError(f"delta must lie in [0, 1), got {shown(delta)}")
    return value


def check_target_delta(delta: object) -> float:
    """A delta at which a composition is asked for its epsilon: zero, or in ``[1e-300, 1)``."""
    value = check_delta(delta)
    if 0.0 < value < _MIN_DELTA:
        raise ValueError(
            f"delta must be 0 or at least {_MIN_DELTA}, below which float64 cannot resolve a "
            f"probability, got {shown(delta)}"
        )
    return value


def check_mu(mu: object) -> float:
    """A Gaussian distance in ``[0, inf]``."""
    value = real("mu", mu)
    if value < 0.0:
        raise ValueError(f"mu must be non-negative, got {shown(mu)}")
    return value


def real_array(name: str, values: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Return real numbers as a float64 array of any shape."""
    try:
        array = np.asarray(values)
        known = array.dtype.kind in "fiu" or all(_is_real(each) for each in array.flat)
        numbers = array.astype(np.float64) if known else None
    except (TypeError, ValueError, OverflowError):
        numbers = None
    if numbers is None:
        raise ValueError(f"{name} must be real numbers, got {shown(values)}")
    return numbers


def check_alpha(alpha: npt.ArrayLike, name: str = "alpha") -> npt.NDArray[np.float64]:
    """Return type-I errors in ``[0, 1]`` as a float64 array of any shape."""
    values = real_array(name, alpha)
    if not np.all((values >= 0.0) & (values <= 1.0)):
        raise ValueError(f"{name} must lie in [0, 1], got {shown(alpha)}")
    return values


def check_count(name: str, value: object) -> int:
    """A number of times."""
    if isinstance(value, bool) or not isinstance(value, Integral) or int(value) < 0:
        raise ValueError(f"{name} must be a non-negative integer, got {shown(value)}")
    return int(value)


def _is_real(value: object) -> TypeGuard[Real]:
    return isinstance(value, Real) and not isinstance(value, bool)


@dataclass(frozen=True, repr=False)
class Interval:
    """All that is proved of a non-negative number: ``lower <= truth <= upper``.

    It unpacks: ``lower, upper = guarantee.epsilon(1e-6)``. The *upper* end is the guarantee; the
    lower end says how much of it could be slack.

    Parameters
    ----------
    lower, upper : float
        ``0 <= lower <= upper <= inf``.
    reason : str
        Why the ends are farther apart than the accuracy asked for; empty where that was
        reached. No part of comparisons.

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
        """``upper - lower``; zero when both ends are infinite."""
        return 0.0 if self.lower == self.upper else self.upper - self.lower

    def contains(self, x: float) -> bool:
        """Whether ``x`` lies between the ends, ends included."""
        return self.lower <= x <= self.upper


@checked
def round_up(x: float) -> float:
    """The smallest float32 number that is not below ``x``, as a Python float.

    Rounding a noise scale to nearest would lower it half of the time. The result is exact in
    float32 and float64 alike, so the guarantee can account for the very number the device uses.
    Zero and infinities stay. Positive numbers below ``2^-80`` are passed over, since machines flush
    those below ``2^-126`` to zero: of noise with so small a scale enough would be none at all for
    answers to show through it.

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
    """The largest float32 number that is not above ``x``: ``-round_up(-x)``.

    Examples
    --------
    >>> round_down(0.1)
    0.09999999403953552
    """
    return 0.0 - round_up(-real("x", x))


def next_up(x: float) -> float:
    """The next float above; zero stays."""
    return math.nextafter(x, math.inf) if x else 0.0


def multiply(count: int, each: float) -> float:
    """``count * each`` to a relative ``2^-51``; infinite only beyond float64.

    Nothing, if one of the two is nothing: no release costs nothing, even one without noise.
    """
    if count == 0 or each == 0.0 or math.isinf(each):
        return 0.0 if count == 0 else each
    try:
        return count * each
    except OverflowError:
        pass
    try:
        return float(Fraction(each) * count)
    except OverflowError:
        return math.copysign(math.inf, each)


def weighted_sum(parts: Iterable[tuple[float, int]]) -> float:
    """``sum of count * each``, to a relative ``2^-50`` where no two signs differ."""
    terms = [multiply(count, each) for each, count in parts]
    try:
        return math.fsum(terms)
    except OverflowError:  # of a partial sum
        return math.copysign(math.inf, max(terms, key=abs))


def square_root(count: int) -> float:
    """``sqrt(count)``, to a relative ``2^-52``; infinite only beyond float64."""
    try:
        return math.sqrt(count)
    except OverflowError:
        return multiply(math.isqrt(count), 1.0)


def half_square(shift: float) -> float:
    """``shift^2 / 2`` as an upper bound that only ``shift = 0`` makes zero."""
    return max(0.5 * shift * shift, SMALLEST) if shift > 0.0 else 0.0


def bisect(holds: Callable[[float], bool], inside: float, outside: float) -> float:
    """Bisect from ``inside``, where ``holds``, towards ``outside``, where it does not.

    Every point that becomes the answer has itself been tested, so ``holds(answer)`` is a fact
    and not a matter of tolerance, even where rounding makes ``holds`` not quite monotone. Stops
    at neighbouring floats, or after 200 halvings.
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
    """Narrow a bracket with ``gap(inside) <= 0 < gap(outside)`` by guarded false position.

    Both points returned have been tested, so their signs are facts whatever the shape of
    ``gap``; infinite values are allowed, and answered by halving. The last steps go *across* the
    estimate, so that the bracket ends no wider than the tolerance.

    The sign changes once between the two points, but for rounding. They stand in any order; it
    ends once they are within ``absolute + relative max(|inside|, |outside|)``.
    """
    low, high, last = gap(inside), gap(outside), 0
    for step in range(_STEPS):
        width = outside - inside
        tolerance = absolute + relative * max(abs(inside), abs(outside))
        if abs(width) <= tolerance:
            break
        guess = 0.5
        if step % 3 != 2 and -math.inf < low < high < math.inf:
            guess = low / (low - high)
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


SUM_TOLERANCE = 1e-9  # by which probabilities may miss one
_MAX_MULTIPLICITY = 2**1022  # its inverse is a normal number
_U = 2.0**-53  # unit roundoff of float64


def is_noise(value: object) -> TypeGuard[float]:
    """Whether ``value`` can be a noise multiplier: a real number, not negative, not NaN."""
    if not isinstance(value, Real) or isinstance(value, bool):
        return False
    try:
        return float(value) >= 0.0
    except OverflowError:  # an integer beyond float64
        return False


def is_rate(value: object) -> TypeGuard[float]:
    """Whether ``value`` can be a probability: a real number in ``[0, 1]``."""
    return is_noise(value) and float(value) <= 1.0


def is_multiplicity(value: object) -> TypeGuard[int]:
    """Whether ``value`` is an integer that can say how often something was done."""
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= 0


def is_count(value: object) -> TypeGuard[int]:
    """Whether ``value`` is an integer below 2^1022 that counts something."""
    return is_multiplicity(value) and int(value) < _MAX_MULTIPLICITY


def is_batch(size: object, batch: object) -> bool:
    """Whether ``batch`` of ``size`` records can be drawn."""
    return is_count(size) and is_count(batch) and int(batch) <= int(size) > 0


def tree_nodes(step_counts: object) -> int | None:
    """Nodes of a binary tree above one leaf, ``floor(log2 T) + 1``; the most, of several trees.

    A record takes part in one step of one tree. ``None`` if ``step_counts`` is no number of
    steps, nor a list of such.
    """
    trees = step_counts if isinstance(step_counts, list | tuple) else [step_counts]
    counts = [int(steps) for steps in trees if is_count(steps)]
    if len(counts) < len(trees):
        return None
    return max((steps.bit_length() for steps in counts), default=0)


def check_probabilities(probabilities: object) -> tuple[list[float], float] | None:
    """The probabilities of a coin, and what they lack; None if they are none.

    A sum that rounding can explain is divided out. What it lacks beyond that is rounded up; a sum
    that exceeds one by more is none of a coin.
    """
    if not isinstance(probabilities, list | tuple) or not all(map(is_rate, probabilities)):
        return None
    shares = [float(each) for each in probabilities]
    total = math.fsum(shares)
    missing = 1.0 - total
    if abs(missing) <= 2 * _U * (1 + len(shares)):
        return [min(1.0, share / total) for share in shares], 0.0
    if not 0.0 < missing <= SUM_TOLERANCE:
        return None
    return shares, math.nextafter(missing, 1.0)


def _is_coin(probabilities: object) -> bool:
    return check_probabilities(probabilities) is not None


_RULES: dict[str, tuple[Callable[[object], bool], str]] = {
    "noise_multiplier": (is_noise, "be non-negative"),
    "sampling_probability": (is_rate, "lie in [0, 1]"),
    "noise_parameter": (is_rate, "lie in [0, 1]"),
    "probabilities": (_is_coin, "lie in [0, 1] and add up to 1"),
    "count": (is_multiplicity, "be a non-negative integer"),
}


def invalid_parameter(event: object) -> str:
    """What is wrong with a number of ``event``, or of what it samples; empty if nothing."""
    while event is not None:
        for name, (holds, rule) in _RULES.items():
            value = getattr(event, name, None)
            if hasattr(event, name) and not holds(value):
                return f"{name} must {rule}, got {shown(value)}"
        event = getattr(event, "event", None)
    return ""
