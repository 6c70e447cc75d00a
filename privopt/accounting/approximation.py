"""A number estimated without an error bound: it may lie on either side of the truth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn, Protocol

import numpy as np
import numpy.typing as npt

from privopt.arguments import shown
from privopt.privacy import Respondent
from privopt.privacy.numbers import real, real_array


class _Estimate:
    """What every estimate refuses: to be ordered, and to be computed with unawares."""

    __array_ufunc__ = None  # NumPy steps back, so that comparisons with its numbers end here too

    method: str

    def _refuse(self, other: object) -> NoReturn:
        raise TypeError(
            f"cannot compare an estimate ({self.method}) with {shown(other)}: it has no error "
            "bound, "
            "so an inequality about it says nothing of the truth; read its value on purpose"
        )

    __lt__ = __le__ = __gt__ = __ge__ = _refuse


@dataclass(frozen=True)
class Approximation(_Estimate):
    """An estimate of a number, never a guarantee.

    A limit theorem or a series without an error bound gives one of these and no ``Interval``.
    It has no ``upper``, is not a number, and has no order (``TypeError``): whoever wants the bare
    estimate writes ``value``. ``method`` says what it comes from. It prints as
    ``about 2.32 (CLT)``, to three digits unless asked for others (``f"{estimate:.5f}"``).

    Examples
    --------
    >>> print(Approximation(2.3195, "CLT"))
    about 2.32 (CLT)
    >>> f"{Approximation(2.3195, 'CLT'):.4f}"
    'about 2.3195 (CLT)'
    """

    value: float
    method: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", real("value", self.value))
        _check_method(self.method)

    def __str__(self) -> str:
        return format(self, "")

    def __format__(self, spec: str) -> str:
        return f"about {self.value:{spec or '.3g'}} ({self.method})"


@dataclass(frozen=True, eq=False)
class ApproximateCurve(_Estimate):
    """An estimate of a curve at some points: an ``Approximation`` with an array inside.

    Like it, it is not numbers: NumPy will not compute with it, and ``values`` must be asked for.

    ``values`` of any shape are kept as a float64 array that cannot be written to.

    Examples
    --------
    >>> ApproximateCurve([1.0, 0.5], "CLT").values.tolist()
    [1.0, 0.5]
    """

    values: npt.NDArray[np.float64]
    method: str

    def __post_init__(self) -> None:
        values = real_array("values", self.values).copy()
        if np.isnan(values).any():
            raise ValueError(f"values must be real numbers, got {shown(self.values)}")
        values.flags.writeable = False
        object.__setattr__(self, "values", values)
        _check_method(self.method)

    def __array__(self, dtype: object = None, copy: bool | None = None) -> NoReturn:
        raise TypeError(
            f"an estimated curve ({self.method}) is not an array: it has no error bound; "
            "read its values on purpose"
        )

    def __str__(self) -> str:
        return f"about {np.array2string(self.values, precision=3)} ({self.method})"


class Estimator(Respondent[Approximation, ApproximateCurve], Protocol):
    """Estimates the privacy of the events it supports, and proves nothing.

    Its methods are those of ``Accountant`` with answers of another type, so that no estimate is
    taken for a bound. ``name`` is also the ``method`` of its answers.
    """


def _check_method(method: object) -> None:
    if not isinstance(method, str) or not method:
        raise ValueError(f"method must be a non-empty string, got {shown(method)}")
