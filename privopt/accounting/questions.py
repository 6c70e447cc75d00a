"""One question to any accountant, by its name too: those that prove and those that estimate."""

from __future__ import annotations

from typing import Any, TypeVar, overload

import dp_accounting as dp
import numpy as np
import numpy.typing as npt

from privopt import privacy
from privopt.accounting.accountants import ACCOUNTANTS, ESTIMATORS
from privopt.accounting.approximation import ApproximateCurve, Approximation
from privopt.privacy import Interval, Respondent
from privopt.privacy.choice import named
from privopt.spec import Relation

__all__ = ["delta", "epsilon", "supports", "trade_off"]

Answer = TypeVar("Answer")


def supports(
    event: dp.DpEvent, *, relation: Relation | str, accountant: Respondent[Any, Any] | str
) -> bool:
    """``privacy.supports``, for the names in ``ESTIMATORS`` and all ``ACCOUNTANTS`` as well.

    Examples
    --------
    >>> supports(dp.LaplaceDpEvent(1.0), relation="zero_out", accountant="CLT")
    False
    """
    return privacy.supports(event, relation=relation, accountant=_named(accountant))


@overload
def epsilon(
    event: dp.DpEvent, delta: float, *, relation: Relation | str, accountant: None = None
) -> Interval: ...
@overload
def epsilon(
    event: dp.DpEvent,
    delta: float,
    *,
    relation: Relation | str,
    accountant: Respondent[Answer, Any],
) -> Answer: ...
@overload
def epsilon(
    event: dp.DpEvent, delta: float, *, relation: Relation | str, accountant: str
) -> Interval | Approximation: ...
def epsilon(
    event: dp.DpEvent,
    delta: float,
    *,
    relation: Relation | str,
    accountant: Respondent[Any, Any] | str | None = None,
) -> Any:
    """The smallest ``epsilon`` at which ``event`` is ``(epsilon, delta)``-DP.

    Everything is as in ``privacy.epsilon``, but that ``accountant`` may be any name in
    ``ACCOUNTANTS`` or ``ESTIMATORS``, or its beginning.

    Returns
    -------
    Interval or Approximation
        Certified bounds from an accountant; a number without any from an estimator.

    Examples
    --------
    >>> step = dp.PoissonSampledDpEvent(0.01, dp.GaussianDpEvent(1.0))
    >>> run = dp.SelfComposedDpEvent(step, 1000)
    >>> print(epsilon(run, 1e-5, relation="add_or_remove_one", accountant="CLT"))
    about 1.81 (CLT)
    """
    if accountant is None:
        return privacy.epsilon(event, delta, relation=relation)
    return privacy.epsilon(event, delta, relation=relation, accountant=_named(accountant))


@overload
def delta(
    event: dp.DpEvent, epsilon: float, *, relation: Relation | str, accountant: None = None
) -> Interval: ...
@overload
def delta(
    event: dp.DpEvent,
    epsilon: float,
    *,
    relation: Relation | str,
    accountant: Respondent[Answer, Any],
) -> Answer: ...
@overload
def delta(
    event: dp.DpEvent, epsilon: float, *, relation: Relation | str, accountant: str
) -> Interval | Approximation: ...
def delta(
    event: dp.DpEvent,
    epsilon: float,
    *,
    relation: Relation | str,
    accountant: Respondent[Any, Any] | str | None = None,
) -> Any:
    """The smallest ``delta`` at which ``event`` is ``(epsilon, delta)``-DP; see ``epsilon``.

    Examples
    --------
    >>> laplace = dp.SelfComposedDpEvent(dp.LaplaceDpEvent(2.0), 4)
    >>> round(delta(laplace, 1.0, relation="zero_out", accountant="basic").upper, 3)
    0.472
    """
    if accountant is None:
        return privacy.delta(event, epsilon, relation=relation)
    return privacy.delta(event, epsilon, relation=relation, accountant=_named(accountant))


def trade_off(
    event: dp.DpEvent,
    alphas: npt.ArrayLike,
    *,
    relation: Relation | str,
    accountant: Respondent[Any, Any] | str | None = None,
) -> npt.NDArray[np.float64] | ApproximateCurve:
    """The smallest type-II error of any test of neighbours with type-I error ``alphas``.

    From below, as in ``privacy.trade_off``; from an estimator an ``ApproximateCurve``.

    Examples
    --------
    >>> print(trade_off(dp.GaussianDpEvent(1.0), [0.5], relation="zero_out", accountant="CLT"))
    about [0.159] (CLT)
    """
    if accountant is None:
        return privacy.trade_off(event, alphas, relation=relation)
    answer: npt.NDArray[np.float64] | ApproximateCurve = privacy.trade_off(
        event, alphas, relation=relation, accountant=_named(accountant)
    )
    return answer


def _named(accountant: Respondent[Any, Any] | str) -> Respondent[Any, Any]:
    return named(accountant, (*ACCOUNTANTS, *ESTIMATORS))
