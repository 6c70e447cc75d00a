"""Privacy guarantees of events: epsilon, delta, mu and trade-off curves under a relation.

``Guarantee`` holds an event and its neighbouring relation. The functions ``epsilon``, ``delta``,
``trade_off`` and ``supports`` evaluate one event by any accountant.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import TypeAlias, TypeVar, overload

import attr
import dp_accounting as dp
import numpy as np
import numpy.typing as npt

from privopt.arguments import (
    check_type,
    checked,
    described,
    instance,
    positive_integer,
    shown,
    suggestion,
)
from privopt.privacy.accountants import (
    ACCOUNTANTS,
    ACCURACY,
    TIGHT,
    Accountant,
    Fourier,
    GaussianDP,
    Group,
    Mixture,
    NonPrivate,
    Respondent,
)
from privopt.privacy.events import GroupDpEvent, PublicMixtureDpEvent, freeze
from privopt.privacy.flatten import (
    bounding_events,
    combine_bounds,
    distinct_bounds,
    first_unsupported,
)
from privopt.privacy.mechanisms.base import group_event, release_of
from privopt.privacy.mu import smallest_mu
from privopt.privacy.numbers import (
    Array,
    Interval,
    check_alpha,
    check_count,
    check_epsilon,
    check_target_delta,
    intersection,
    invalid_parameter,
)
from privopt.spec import Budget, Relation

_RELATIVE_WIDTH = 2.0 * ACCURACY  # further accountants would not improve such an interval
_NOT_TIGHT = "no accountant proves ends that are closer"
_FINER_ACCURACIES = (1e-5, 1e-6, 1e-7, 1e-8)
_DP_RELATIONS = {
    Relation.REPLACE_ONE: dp.NeighboringRelation.REPLACE_ONE,
    Relation.ADD_OR_REMOVE_ONE: dp.NeighboringRelation.ADD_OR_REMOVE_ONE,
    Relation.ZERO_OUT: dp.NeighboringRelation.REPLACE_SPECIAL,
}
_POISSON_EVENTS = (dp.PoissonSampledDpEvent, dp.TruncatedSubsampledGaussianDpEvent)
_WRAPPERS = (  # events with one inner event
    dp.SelfComposedDpEvent,
    dp.PoissonSampledDpEvent,
    dp.SampledWithoutReplacementDpEvent,
    dp.dp_event.RepeatAndSelectDpEvent,
)


@dataclass(frozen=True)
class Guarantee:
    """The privacy of everything that was released, as an event and a neighbouring relation.

    Every interval consists of the largest lower and the smallest upper bound that the accountants
    in ``TIGHT`` prove. They are evaluated in turn until the two are within a relative 2e-4, or an
    exact accountant applies. If no accountant supports the event, the interval is ``[0, inf]`` for
    epsilon and mu, and ``[0, 1]`` for delta.

    Parameters
    ----------
    event : dp_accounting.DpEvent
        The releases. Noise multipliers are noise standard deviations (scales for Laplace noise)
        divided by the norm bound of *one record*. The accountants apply the relation, so that a
        replaced record counts twice.
    relation : Relation or str
        The neighbouring relation.
    assumptions : iterable of str
        Conditions on the data or the run under which the event describes the releases.
    records : int
        Neighbours differ in up to this number of records, which are added, removed or changed
        together.

    Formal guarantee
    ----------------
    If the assumptions hold, the releases are ``(g.epsilon(delta).upper, delta)``- and
    ``(epsilon, g.delta(epsilon).upper)``-differentially private under ``relation``, for all
    ``delta`` and ``epsilon`` at once.

    Examples
    --------
    >>> import dp_accounting as dp
    >>> released = Guarantee(dp.GaussianDpEvent(2.0), "add_or_remove_one")
    >>> print(released)
    epsilon at most 2.254 at delta 1e-06 under add_or_remove_one
    >>> round(released.times(4).epsilon(1e-6).upper, 3)
    4.887
    """

    event: dp.DpEvent
    relation: Relation
    assumptions: tuple[str, ...] = ()
    records: int = 1

    def __post_init__(self) -> None:
        if not isinstance(self.event, dp.DpEvent):
            raise ValueError(f"event must be a dp_accounting.DpEvent, got {shown(self.event)}")
        check_type("assumptions", self.assumptions, tuple[str, ...])
        object.__setattr__(self, "event", freeze(self.event))
        object.__setattr__(self, "relation", Relation.named("relation", self.relation))
        object.__setattr__(self, "assumptions", tuple(dict.fromkeys(self.assumptions)))

    def __str__(self) -> str:
        """Return epsilon as text: at ``delta = 0`` if it is finite there, else at 1e-6."""
        delta = 0.0 if math.isfinite(self.epsilon(0.0).upper) else 1e-6
        text = f"epsilon at most {self.epsilon(delta).upper:.4g} at delta {delta:g}"
        return "; ".join([f"{text} under {self.relation.value}", *self.assumptions])

    def exported(self) -> tuple[dp.DpEvent, dp.NeighboringRelation]:
        """Return an event and a relation for which dp-accounting's accountants are valid.

        They can differ from ``event`` and ``relation``, because some accountants of dp-accounting
        charge less for these. Then an equivalent event is returned. A part without an equivalent
        raises a ValueError.

        >>> event, relation = Guarantee(dp.GaussianDpEvent(2.0), "replace_one").exported()
        >>> event, relation.name
        (GaussianDpEvent(noise_multiplier=1.0), 'REPLACE_SPECIAL')
        """
        return _translate_event(self.event, self.relation)

    def epsilon(self, delta: float) -> Interval:
        """Return bounds of the smallest ``epsilon`` with ``(epsilon, delta)``-DP."""
        at = check_target_delta(delta)
        return self._proved(lambda each, event: each.epsilon(event, self.relation, at), math.inf)

    def delta(self, epsilon: float) -> Interval:
        """Return bounds of the smallest ``delta`` with ``(epsilon, delta)``-DP."""
        at = check_epsilon(epsilon)
        return self._proved(lambda each, event: each.delta(event, self.relation, at), 1.0)

    def trade_off(self, alpha: npt.ArrayLike) -> Array:
        """Return a lower bound of the type-II error of every test of neighbours at level ``alpha``.

        It is the pointwise maximum over all accountants, an array of the shape of ``alpha``, and
        zero if no accountant supports the event.
        """
        alphas = check_alpha(alpha)
        curve, event = np.zeros_like(alphas), bounding_events(self.event)[0]
        for each in self._accountants(event):
            proved = each.trade_off(event, self.relation, alphas)
            curve = np.asarray(np.maximum(curve, proved))
        return curve

    def mu(self, delta: float = 0.0) -> Interval:
        """Return bounds of the smallest ``mu`` for which the releases are ``mu``-Gaussian DP.

        With ``delta(x)`` the privacy profile of the releases, the larger one of both orders of the
        neighbours, and ``delta(x; m) = Phi(m/2 - x/m) - e^x Phi(-m/2 - x/m)`` that of ``N(m, 1)``
        against ``N(0, 1)``::

            mu = inf {m : delta(x) <= delta(x; m) + delta for all x >= 0}.

        For ``delta = 0`` this is ``mu``-Gaussian DP, which depends on events of arbitrarily small
        probability: Poisson-sampled Gaussian steps have the ``mu`` of the steps without sampling,
        for any sampling rate. A ``delta`` such as 1e-10 excludes these events.

        Parameters
        ----------
        delta : float
            0, or at least 1e-300: the probability with which Gaussian DP may fail.

        Returns
        -------
        Interval
            Certified bounds. Both ends agree up to rounding if the event is exactly Gaussian and
            ``delta`` is 0. Both are infinite if everything is revealed with a probability above
            ``delta``. Otherwise the ends are within a factor 1.002 if ``epsilon(delta)`` is finite
            and the bounds of the profile are tight; ``reason`` states an exception.

        Formal guarantee
        ----------------
        With ``m = g.mu(delta).upper``, the releases are ``(epsilon, delta(epsilon; m) + delta)``-DP
        under ``relation``, for all ``epsilon >= 0``. For no
        ``m < g.mu(delta).lower`` they are.

        Source: Dong, Roth and Su 2022 (arXiv:1905.02383), Proposition 2.12, for the duality of
        profile and trade-off curve; Gomez, Kulynych, Kaissis, Calmon, Hayes, Balle and Honkela 2025
        (arXiv:2503.10945), for ``mu`` in reports. Bounds and proof: :ref:`Accountants, Theorem 4
        <theory-accountants-4>`.

        Examples
        --------
        >>> import dp_accounting as dp
        >>> released = Guarantee(dp.GaussianDpEvent(2.0), "add_or_remove_one").times(4)
        >>> round(released.mu().upper, 6)
        1.0
        >>> step = dp.PoissonSampledDpEvent(0.01, dp.GaussianDpEvent(1.0))
        >>> run = Guarantee(dp.SelfComposedDpEvent(step, 100), "add_or_remove_one")
        >>> round(run.mu().upper, 3), round(run.mu(delta=1e-10).upper, 2)
        (10.0, 0.34)
        """
        at = check_target_delta(delta)
        return smallest_mu(self.event, self.relation, at, self.epsilon, self.delta)

    @property
    def cites(self) -> tuple[str, ...]:
        """The papers of the accountants that apply, as keys of ``references.bib``."""
        event = bounding_events(self.event)[0]
        keys_by_accountant = (getattr(each, "cites", ()) for each in self._accountants(event))
        return tuple(dict.fromkeys(key for keys in keys_by_accountant for key in keys))

    def meets(self, budget: Budget) -> bool:
        """Return True if the releases are proved to be within ``budget``.

        The condition is ``epsilon(budget.delta).upper <= budget.epsilon``. If the bounds do not
        decide it, the Fourier accountant is evaluated with increasing accuracy. Return False if its
        largest accuracy does not suffice to decide.
        """
        instance("budget", budget, Budget)
        if budget.relation is not self.relation:
            raise ValueError(
                f"budget.relation must be {self.relation.value}, got {budget.relation.value}"
            )
        interval = self.epsilon(budget.delta)
        if interval.upper <= budget.epsilon or interval.lower > budget.epsilon:
            return interval.upper <= budget.epsilon
        event = bounding_events(self.event)[0]
        for fourier in (Fourier(accuracy, two_sided=False) for accuracy in _FINER_ACCURACIES):
            if not fourier.supports(event, self.relation):
                return False
            upper = fourier.epsilon(event, self.relation, budget.delta).upper
            if upper <= budget.epsilon:
                return True
            if upper > budget.epsilon * (1.0 + 10.0 * fourier.accuracy):
                return False  # a finer mesh does not reduce it to the budget
        return False

    def then(self, other: Guarantee) -> Guarantee:
        """Return the guarantee of both releases on the same data, chosen adaptively."""
        instance("other", other, Guarantee)
        if self.relation is not other.relation:
            raise ValueError(
                "cannot compose guarantees under different neighbouring relations: "
                f"{self.relation.value} and {other.relation.value}"
            )
        if self.records != other.records:
            raise ValueError(
                f"cannot compose guarantees of {self.records} and of {other.records} records"
            )
        events = (*_members(self.event), *_members(other.event))
        return self._released(dp.ComposedDpEvent(events), self.assumptions + other.assumptions)

    def times(self, k: int) -> Guarantee:
        """Return the guarantee of ``k`` adaptive repetitions of the release."""
        k = check_count("k", k)
        return self._released(dp.SelfComposedDpEvent(self.event, k), self.assumptions)

    def group(self, k: int) -> Guarantee:
        """Return the guarantee of the same releases for groups of up to ``k`` records.

        Neighbours differ in up to ``k`` records that are added together, removed together, all
        zeroed, or replaced by as many others: for example the records of a user with at most ``k``
        records.

        The result is exact for Gaussian and Laplace noise, with the noise multiplier divided by
        ``k``. It is also exact for Gaussian noise on Poisson samples of up to 500 records, except
        under ``replace_one``: a mixture of normal laws with binomial weights. Losses of pure
        releases and of bounded range add up. A composition with any other release has the general
        bound of :func:`privopt.privacy.group_privacy`, and the lower bounds of one record.

        Examples
        --------
        >>> import dp_accounting as dp
        >>> one = Guarantee(dp.GaussianDpEvent(8.0), "add_or_remove_one")
        >>> round(one.epsilon(1e-6).upper, 3), round(one.group(4).epsilon(1e-6).upper, 3)
        (0.504, 2.254)
        """
        k = positive_integer("k", k)
        if k == 1:
            return self
        event = group_event(self.event, k, self.relation) or GroupDpEvent(self.event, k)
        return Guarantee(event, self.relation, self.assumptions, k * self.records)

    def _released(self, event: dp.DpEvent, assumptions: tuple[str, ...]) -> Guarantee:
        """Return a copy with another event of frozen parts."""
        result = copy(self)
        object.__setattr__(result, "event", event)
        object.__setattr__(result, "assumptions", tuple(dict.fromkeys(assumptions)))
        return result

    def _proved(
        self, evaluate: Callable[[Accountant, dp.DpEvent], Interval], worst: float
    ) -> Interval:
        """Return the intersection of all accountants' bounds, for both ``bounding_events``."""

        def best(event: dp.DpEvent) -> Interval:
            return _intersect((evaluate(each, event) for each in self._accountants(event)), worst)

        return combine_bounds(best, bounding_events(self.event))

    def _accountants(self, event: dp.DpEvent) -> Iterator[Accountant]:
        """Yield the accountants that support the event, up to the first exact one."""
        others: tuple[Accountant, ...] = (Mixture(), *TIGHT)
        for each in (Group(others), *others):
            if each.supports(event, self.relation):
                yield each
                if isinstance(each, NonPrivate | GaussianDP):
                    return


def _intersect(proofs: Iterator[Interval], worst: float) -> Interval:
    """Return the intersection of the bounds with ``[0, worst]``; stop once it is narrow."""
    best = Interval(0.0, worst)
    for proof in proofs:
        best = replace(intersection((best, proof)), reason=best.reason or proof.reason)
        if best.width == 0.0 or best.width <= _RELATIVE_WIDTH * best.upper < math.inf:
            return replace(best, reason="")
    return best if best.reason else replace(best, reason=_NOT_TIGHT)


def _members(event: dp.DpEvent) -> tuple[dp.DpEvent, ...]:
    """Return the members of a composition, so that chains of ``then`` stay flat."""
    return tuple(event.events) if isinstance(event, dp.ComposedDpEvent) else (event,)


def _translate_event(
    event: dp.DpEvent, relation: Relation
) -> tuple[dp.DpEvent, dp.NeighboringRelation]:
    """Return the event and the relation to pass to dp-accounting's accountants.

    Events have the same meaning in both libraries, but in two cases dp-accounting charges less:

    - under ``REPLACE_ONE`` its Rényi accountant assumes that a sum changes by the norm bound of
      *one* record, but a replaced record changes it by two;
    - under ``REPLACE_SPECIAL`` it lets a null record answer a randomised response uniformly.

    Therefore noise is halved under ``replace_one`` and passed under ``REPLACE_SPECIAL``, for which
    both libraries count one record. A randomised response is passed as a pure event. A public
    mixture is passed with its branches translated; dp-accounting does not support it. Halving is
    not valid for a Poisson sample under ``replace_one``. Its event is unchanged: the loss
    distributions of dp-accounting support it, and its Rényi accountant does not.
    """
    parts = list(_iterate_events(event))
    if relation is Relation.REPLACE_ONE and any(
        isinstance(part, _POISSON_EVENTS) for part in parts
    ):
        _translate(event, Relation.ZERO_OUT)  # raises for unknown events
        return event, _DP_RELATIONS[relation]
    fixed = any(isinstance(part, dp.SampledWithoutReplacementDpEvent) for part in parts)
    halved = relation is Relation.REPLACE_ONE and not fixed
    return _translate(event, relation), _DP_RELATIONS[Relation.ZERO_OUT if halved else relation]


def _iterate_events(event: dp.DpEvent) -> Iterator[dp.DpEvent]:
    yield event
    if isinstance(event, dp.ComposedDpEvent | PublicMixtureDpEvent):
        for part in event.events:
            yield from _iterate_events(part)
    elif isinstance(event, _WRAPPERS):
        yield from _iterate_events(event.event)


def _translate(event: dp.DpEvent, relation: Relation) -> dp.DpEvent:
    """Return the same tree with every release translated by ``Release.exported``."""
    if isinstance(event, dp.ComposedDpEvent):
        return dp.ComposedDpEvent([_translate(part, relation) for part in event.events])
    if isinstance(event, PublicMixtureDpEvent) and release_of(event) is not None:
        return attr.evolve(event, events=tuple(_translate(part, relation) for part in event.events))
    if isinstance(event, _WRAPPERS):
        return attr.evolve(event, event=_translate(event.event, relation))
    release = release_of(event)
    if release is not None and release.neutral:
        return event
    translated = None if release is None else release.exported(relation)
    if translated is None:
        raise ValueError(f"event must have an equivalent in dp-accounting, got {shown(event)}")
    return translated


Answer = TypeVar("Answer")
_Relation: TypeAlias = Relation | str
_Accountant: TypeAlias = Respondent[object, object] | str | None


class UnsupportedEventError(ValueError):
    """An event that the accountant does not support."""


def find_accountant(
    accountant: Respondent[object, object] | str,
    known: Sequence[Respondent[object, object]] = ACCOUNTANTS,
) -> Respondent[object, object]:
    """Return the accountant with this name, or the only one whose name starts with it.

    Accents and case are ignored. An instance is returned unchanged.
    """
    if not isinstance(accountant, str):
        if isinstance(accountant, type) or not hasattr(accountant, "supports"):
            raise ValueError(
                f"accountant must be an instance or a name, got {described(accountant)}"
            )
        return accountant
    names = {each.name: each for each in known}
    prefix = _normalise(accountant)
    exact = [each for name, each in names.items() if _normalise(name) == prefix]
    near = [each for name, each in names.items() if _normalise(name).startswith(prefix)]
    for matches in (exact, near):
        if len(matches) == 1:
            return matches[0]
    hint = suggestion(accountant, names)
    raise ValueError(f"accountant must be one of {', '.join(names)}, got {shown(accountant)}{hint}")


def check_supported(
    event: dp.DpEvent, relation: Relation, accountants: Sequence[Respondent[object, object]]
) -> None:
    """Raise UnsupportedEventError, which names the unsupported part, if no accountant applies."""

    def supported(part: dp.DpEvent) -> bool:
        return any(each.supports(part, relation) for each in accountants)

    if not all(supported(each) for each in distinct_bounds(event)):
        one = len(accountants) == 1
        subject = f"{accountants[0].name} does not support" if one else "no accountant supports"
        part = first_unsupported(event, supported)
        reason = f": {invalid_parameter(part)}" if invalid_parameter(part) else ""
        kind = type(part).__name__
        raise UnsupportedEventError(f"{subject} {kind} under {relation.value}{reason}")


def _normalise(name: str) -> str:
    return unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().casefold()


@checked
def supports(
    event: dp.DpEvent, *, relation: Relation | str, accountant: Respondent[object, object] | str
) -> bool:
    """Return True if ``accountant`` supports all parts of ``event`` under ``relation``.

    The parameters are those of ``epsilon``.

    Examples
    --------
    >>> supports(dp.LaplaceDpEvent(1.0), relation="zero_out", accountant="pure DP")
    True
    """
    guarantee = Guarantee(event, Relation.named("relation", relation))
    return find_accountant(accountant).supports(guarantee.event, guarantee.relation)


@checked
@overload
def epsilon(
    event: dp.DpEvent, delta: float, *, relation: _Relation, accountant: str | None = None
) -> Interval: ...
@overload
def epsilon(
    event: dp.DpEvent, delta: float, *, relation: _Relation, accountant: Respondent[Answer, object]
) -> Answer: ...
def epsilon(
    event: dp.DpEvent, delta: float, *, relation: _Relation, accountant: _Accountant = None
) -> object:
    """Return the smallest ``epsilon`` for which ``event`` is ``(epsilon, delta)``-DP.

    Parameters
    ----------
    event : dp_accounting.DpEvent
        The releases. Noise multipliers are relative to the norm bound of one record.
    delta : float
        In ``[0, 1)``: zero, or at least 1e-300, the range of float64.
    relation : Relation or str
        The neighbouring relation.
    accountant : Accountant or str, optional
        An instance, including those of ``privopt.accounting``, or the name of one in
        ``ACCOUNTANTS`` or its beginning: ``"fourier"``, ``"renyi"``. Default: the intersection of
        all accountants' bounds, as in ``Guarantee``.

    Returns
    -------
    Interval
        Certified bounds. An instance returns its own type.

    Raises
    ------
    UnsupportedEventError
        If the accountant does not support the event under this relation or, by default, no
        accountant does. The message names the unsupported part.

    Examples
    --------
    >>> step = dp.PoissonSampledDpEvent(0.01, dp.GaussianDpEvent(1.0))
    >>> spent = epsilon(dp.SelfComposedDpEvent(step, 100), 1e-6, relation="add_or_remove_one")
    >>> round(spent.upper, 2)
    0.95
    """
    delta = check_target_delta(delta)
    selected, guarantee = _resolve(event, relation, accountant)
    if selected is None:
        return guarantee.epsilon(delta)
    return selected.epsilon(guarantee.event, guarantee.relation, delta)


@checked
@overload
def delta(
    event: dp.DpEvent, epsilon: float, *, relation: _Relation, accountant: str | None = None
) -> Interval: ...
@overload
def delta(
    event: dp.DpEvent,
    epsilon: float,
    *,
    relation: _Relation,
    accountant: Respondent[Answer, object],
) -> Answer: ...
def delta(
    event: dp.DpEvent, epsilon: float, *, relation: _Relation, accountant: _Accountant = None
) -> object:
    """Return the smallest ``delta`` for which ``event`` is ``(epsilon, delta)``-DP.

    ``epsilon`` is finite and non-negative. The other parameters are those of ``epsilon``.

    Examples
    --------
    >>> round(delta(dp.GaussianDpEvent(1.0), 1.0, relation="add_or_remove_one").upper, 4)
    0.1269
    """
    epsilon = check_epsilon(epsilon)
    selected, guarantee = _resolve(event, relation, accountant)
    if selected is None:
        return guarantee.delta(epsilon)
    return selected.delta(guarantee.event, guarantee.relation, epsilon)


@checked
@overload
def trade_off(
    event: dp.DpEvent, alphas: npt.ArrayLike, *, relation: _Relation, accountant: str | None = None
) -> Array: ...
@overload
def trade_off(
    event: dp.DpEvent,
    alphas: npt.ArrayLike,
    *,
    relation: _Relation,
    accountant: Respondent[object, Answer],
) -> Answer: ...
def trade_off(
    event: dp.DpEvent, alphas: npt.ArrayLike, *, relation: _Relation, accountant: _Accountant = None
) -> object:
    """Return a lower bound of the type-II error of every test of neighbours at level ``alphas``.

    The result is an array of the shape of ``alphas`` with values in ``[0, 1]``. An accountant
    instance returns its own type. The other parameters are those of ``epsilon``.

    Examples
    --------
    >>> event = dp.RandomizedResponseDpEvent(0.5, 2)
    >>> trade_off(event, [0.0, 0.25, 1.0], relation="zero_out").round(3).tolist()
    [1.0, 0.25, 0.0]
    """
    values = check_alpha(alphas, "alphas")
    selected, guarantee = _resolve(event, relation, accountant)
    if selected is None:
        return guarantee.trade_off(values)
    return selected.trade_off(guarantee.event, guarantee.relation, values)


def _resolve(
    event: dp.DpEvent, relation: _Relation, accountant: _Accountant
) -> tuple[Respondent[object, object] | None, Guarantee]:
    """Return the accountant and the guarantee; raise if no accountant supports the event."""
    guarantee = Guarantee(event, Relation.named("relation", relation))
    selected = None if accountant is None else find_accountant(accountant)
    check_supported(event, guarantee.relation, ACCOUNTANTS if selected is None else (selected,))
    return selected, guarantee
