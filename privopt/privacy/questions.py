"""One question, any accountant: epsilon, delta and the trade-off curve of an event."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import TypeVar, overload

import dp_accounting as dp
import numpy as np
import numpy.typing as npt

from privopt.arguments import checked, described, shown, suggestion
from privopt.privacy.accountants import ACCOUNTANTS, Respondent
from privopt.privacy.grouping import between, bracket
from privopt.privacy.guarantee import Guarantee
from privopt.privacy.leaves import first_unsupported
from privopt.privacy.numbers import Interval, check_alpha, check_epsilon, check_target_delta
from privopt.privacy.parameters import flaw
from privopt.spec import Relation

Answer = TypeVar("Answer")


class UnsupportedEventError(ValueError):
    """An accountant was asked about an event that it does not understand."""


def named(
    accountant: Respondent[object, object] | str,
    known: Sequence[Respondent[object, object]] = ACCOUNTANTS,
) -> Respondent[object, object]:
    """The one of ``known`` with this name, or the only one whose name starts with it.

    Accents and case do not count. An instance, of whatever class, is returned as it is.
    """
    if not isinstance(accountant, str):
        if isinstance(accountant, type) or not hasattr(accountant, "supports"):
            raise ValueError(
                f"accountant must be an instance or a name, got {described(accountant)}"
            )
        return accountant
    names = {each.name: each for each in known}
    wanted = _plain(accountant)
    exact = [each for name, each in names.items() if _plain(name) == wanted]
    near = [each for name, each in names.items() if _plain(name).startswith(wanted)]
    for found in (exact, near):
        if len(found) == 1:
            return found[0]
    hint = suggestion(accountant, names)
    raise ValueError(f"accountant must be one of {', '.join(names)}, got {shown(accountant)}{hint}")


def check_supported(
    event: dp.DpEvent, relation: Relation, asked: Sequence[Respondent[object, object]]
) -> tuple[dp.DpEvent, dp.DpEvent]:
    """UnsupportedEventError, which names the part, unless one of those asked knows the event.

    Returns its ``bracket``, which takes a while for a million distinct releases.
    """
    ends = bracket(event)

    def known(part: dp.DpEvent) -> bool:
        return any(each.supports(part, relation) for each in asked)

    if not all(known(each) for each in ends):
        who = f"{asked[0].name} does not support" if len(asked) == 1 else "no accountant supports"
        culprit = first_unsupported(event, known)
        reason = f": {flaw(culprit)}" if flaw(culprit) else ""
        kind = type(culprit).__name__
        raise UnsupportedEventError(f"{who} {kind} under {relation.value}{reason}")
    return ends


def _plain(name: str) -> str:
    return unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().casefold()


@checked
def supports(
    event: dp.DpEvent, *, relation: Relation | str, accountant: Respondent[object, object] | str
) -> bool:
    """Whether ``accountant`` understands the whole tree of ``event`` under ``relation``.

    Parameters are those of ``epsilon``.

    Examples
    --------
    >>> supports(dp.LaplaceDpEvent(1.0), relation="zero_out", accountant="pure DP")
    True
    """
    guarantee = Guarantee(event, Relation.named("relation", relation))
    return named(accountant).supports(guarantee.event, guarantee.relation)


@checked
@overload
def epsilon(
    event: dp.DpEvent, delta: float, *, relation: Relation | str, accountant: str | None = None
) -> Interval: ...
@overload
def epsilon(
    event: dp.DpEvent,
    delta: float,
    *,
    relation: Relation | str,
    accountant: Respondent[Answer, object],
) -> Answer: ...
def epsilon(
    event: dp.DpEvent,
    delta: float,
    *,
    relation: Relation | str,
    accountant: Respondent[object, object] | str | None = None,
) -> object:
    """The smallest ``epsilon`` at which ``event`` is ``(epsilon, delta)``-DP.

    Parameters
    ----------
    event : dp_accounting.DpEvent
        What was released; noise multipliers are over the bound of one record's contribution.
    delta : float
        In ``[0, 1)``; zero, or not below 1e-300, where float64 has no probabilities left.
    relation : Relation or str
        When two data sets are neighbours.
    accountant : Accountant or str, optional
        An instance, those of ``privopt.accounting`` among them, or the name of one in
        ``ACCOUNTANTS``, or its beginning: ``"fourier"``, ``"renyi"``. By default the best that
        all accountants prove together, as in ``Guarantee``.

    Returns
    -------
    Interval
        Certified bounds; from an instance whatever it answers.

    Raises
    ------
    UnsupportedEventError
        If the accountant does not understand the event under this relation, or, by default, none
        does; it names the part.

    Examples
    --------
    >>> step = dp.PoissonSampledDpEvent(0.01, dp.GaussianDpEvent(1.0))
    >>> spent = epsilon(dp.SelfComposedDpEvent(step, 100), 1e-6, relation="add_or_remove_one")
    >>> round(spent.upper, 2)
    0.95
    """
    delta = check_target_delta(delta)
    chosen, guarantee, ends = _asked(event, relation, accountant)
    if chosen is None:
        return between(lambda each: Guarantee(each, guarantee.relation).epsilon(delta), ends)
    return chosen.epsilon(guarantee.event, guarantee.relation, delta)


@checked
@overload
def delta(
    event: dp.DpEvent, epsilon: float, *, relation: Relation | str, accountant: str | None = None
) -> Interval: ...
@overload
def delta(
    event: dp.DpEvent,
    epsilon: float,
    *,
    relation: Relation | str,
    accountant: Respondent[Answer, object],
) -> Answer: ...
def delta(
    event: dp.DpEvent,
    epsilon: float,
    *,
    relation: Relation | str,
    accountant: Respondent[object, object] | str | None = None,
) -> object:
    """The smallest ``delta`` at which ``event`` is ``(epsilon, delta)``-DP.

    ``epsilon`` is finite and not negative; everything else is as for ``epsilon``.

    Examples
    --------
    >>> round(delta(dp.GaussianDpEvent(1.0), 1.0, relation="add_or_remove_one").upper, 4)
    0.1269
    """
    epsilon = check_epsilon(epsilon)
    chosen, guarantee, ends = _asked(event, relation, accountant)
    if chosen is None:
        return between(lambda each: Guarantee(each, guarantee.relation).delta(epsilon), ends)
    return chosen.delta(guarantee.event, guarantee.relation, epsilon)


@checked
@overload
def trade_off(
    event: dp.DpEvent,
    alphas: npt.ArrayLike,
    *,
    relation: Relation | str,
    accountant: str | None = None,
) -> npt.NDArray[np.float64]: ...
@overload
def trade_off(
    event: dp.DpEvent,
    alphas: npt.ArrayLike,
    *,
    relation: Relation | str,
    accountant: Respondent[object, Answer],
) -> Answer: ...
def trade_off(
    event: dp.DpEvent,
    alphas: npt.ArrayLike,
    *,
    relation: Relation | str,
    accountant: Respondent[object, object] | str | None = None,
) -> object:
    """A lower bound of the type-II error of any test of neighbours with type-I error ``alphas``.

    An array of the shape of ``alphas``, whose values lie in ``[0, 1]``; from an instance its
    curve. Everything else is as for ``epsilon``.

    Examples
    --------
    >>> event = dp.RandomizedResponseDpEvent(0.5, 2)
    >>> trade_off(event, [0.0, 0.25, 1.0], relation="zero_out").round(3).tolist()
    [1.0, 0.25, 0.0]
    """
    values = check_alpha(alphas, "alphas")
    chosen, guarantee, ends = _asked(event, relation, accountant)
    if chosen is None:
        return Guarantee(ends[0], guarantee.relation).trade_off(values)
    return chosen.trade_off(guarantee.event, guarantee.relation, values)


def _asked(
    event: dp.DpEvent, relation: Relation | str, accountant: Respondent[object, object] | str | None
) -> tuple[Respondent[object, object] | None, Guarantee, tuple[dp.DpEvent, dp.DpEvent]]:
    """The accountant meant, the event with its relation, both checked, and its ``bracket``."""
    guarantee = Guarantee(event, Relation.named("relation", relation))
    chosen = None if accountant is None else named(accountant)
    asked = ACCOUNTANTS if chosen is None else (chosen,)
    return chosen, guarantee, check_supported(event, guarantee.relation, asked)
