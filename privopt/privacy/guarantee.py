"""What was released, under which relation, and what that proves.

One question, any accountant: epsilon, delta and the trade-off curve of an event.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import TypeVar, overload

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
from privopt.privacy.flatten import bounding_events, combine_bounds, first_unsupported
from privopt.privacy.gaussian import covering_mu, gaussian_mu
from privopt.privacy.mechanisms import group_event, release_of, unsampled_mu
from privopt.privacy.numbers import (
    Interval,
    check_alpha,
    check_count,
    check_epsilon,
    check_target_delta,
    invalid_parameter,
)
from privopt.spec import Budget, Relation

_RELATIVE_WIDTH = 2.0 * ACCURACY  # accountants that come later would add nothing
_MAX_EXPONENT = 700.0  # the exponential is a float64
_SMALL_DELTAS = (1e-200, 1e-100, 1e-12)
_UNBOUNDED = "the privacy loss is unbounded; the upper end ignores sampling"
_NOT_TIGHT = "no accountant proves ends that are closer"
_FINER_ACCURACIES = (1e-5, 1e-6, 1e-7, 1e-8)
_DP_RELATIONS = {
    Relation.REPLACE_ONE: dp.NeighboringRelation.REPLACE_ONE,
    Relation.ADD_OR_REMOVE_ONE: dp.NeighboringRelation.ADD_OR_REMOVE_ONE,
    Relation.ZERO_OUT: dp.NeighboringRelation.REPLACE_SPECIAL,
}
_POISSON_EVENTS = (dp.PoissonSampledDpEvent, dp.TruncatedSubsampledGaussianDpEvent)
_WRAPPERS = (  # one event
    dp.SelfComposedDpEvent,
    dp.PoissonSampledDpEvent,
    dp.SampledWithoutReplacementDpEvent,
    dp.dp_event.RepeatAndSelectDpEvent,
)


@dataclass(frozen=True)
class Guarantee:
    """The privacy of everything released, in the event language of dp-accounting.

    Every answer is the largest lower and the smallest upper bound that the accountants in
    ``TIGHT`` prove, asked in turn until the two are within a relative 2e-4, or an exact one has
    answered. Where nobody supports the event the answer is the whole range, ``[0, inf]`` for
    epsilon and ``[0, 1]`` for delta: what is not understood is never called private.

    Parameters
    ----------
    event : dp_accounting.DpEvent
        What the mechanism did. Noise multipliers are standard deviations (scales, for Laplace
        noise) over the norm bound of *one record's* contribution; the accountants apply the
        relation, so that replacing a record counts double.
    relation : Relation or str
        When two data sets are neighbours.
    assumptions : iterable of str
        What must be true of the data or the run for the event to describe it, in words.
    records : int
        Neighbours differ in so many records at most, that come, go or change together.

    Formal guarantee
    ----------------
    If the assumptions hold, the releases are ``(g.epsilon(delta).upper, delta)``- and
    ``(epsilon, g.delta(epsilon).upper)``-differentially private under ``relation``, for all
    ``delta`` and ``epsilon`` at once.

    Examples
    --------
    >>> import dp_accounting as dp
    >>> released = Guarantee(dp.GaussianDpEvent(2.0), "add_or_remove_one")
    >>> round(released.epsilon(1e-6).upper, 3)
    2.254
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

    def exported(self) -> tuple[dp.DpEvent, dp.NeighboringRelation]:
        """The event and relation by which any of dp-accounting's accountants can check us.

        Not always ``event`` and the relation of the same name: where one of its accountants would
        read less into those, the same release is said in another way. A part that cannot be said
        so is refused by name.

        >>> event, relation = Guarantee(dp.GaussianDpEvent(2.0), "replace_one").exported()
        >>> event, relation.name
        (GaussianDpEvent(noise_multiplier=1.0), 'REPLACE_SPECIAL')
        """
        return _translate_event(self.event, self.relation)

    def epsilon(self, delta: float) -> Interval:
        """The smallest ``epsilon`` at which the event is ``(epsilon, delta)``-DP."""
        at = check_target_delta(delta)
        return self._proved(lambda each, event: each.epsilon(event, self.relation, at), math.inf)

    def delta(self, epsilon: float) -> Interval:
        """The smallest ``delta`` at which the event is ``(epsilon, delta)``-DP."""
        at = check_epsilon(epsilon)
        return self._proved(lambda each, event: each.delta(event, self.relation, at), 1.0)

    def trade_off(self, alpha: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """A lower bound of the type-II error of any test of neighbours with type-I error ``alpha``.

        The largest that an accountant proves, point by point. Returns an array of the shape of
        ``alpha``; zero where nothing is proved.
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

        For ``delta = 0`` this is ``mu``-Gaussian DP: no test of neighbours has a smaller type-II
        error than the best test of ``N(0, 1)`` against ``N(mu, 1)``. It depends on events of
        arbitrarily small probability. Poisson-sampled Gaussian steps have the ``mu`` of the steps
        without sampling, for any sampling rate. A ``delta`` such as 1e-10 excludes these events;
        Gomez et al. 2025 report such a ``mu`` for DP-SGD.

        Parameters
        ----------
        delta : float
            0, or at least 1e-300: the probability with which Gaussian DP may fail.

        Returns
        -------
        Interval
            Certified bounds. Both ends agree up to rounding if the event is exactly Gaussian and
            ``delta`` is 0. Both are infinite if everything is revealed with a probability above
            ``delta``. Otherwise the ends are within a factor 1.001 if ``epsilon(delta)`` is finite.

        Formal guarantee
        ----------------
        With ``m = g.mu(delta).upper``, the releases are ``(epsilon, delta(epsilon; m) + delta)``-DP
        under ``relation``, for all ``epsilon >= 0``. For no
        ``m < g.mu(delta).lower`` they are.

        Source: Dong, Roth and Su, "Gaussian differential privacy", JRSS-B 2022 (arXiv:1905.02383),
        Proposition 2.12, for the duality of profile and trade-off curve; Gomez, Kulynych, Kaissis,
        Calmon, Hayes, Balle and Honkela, "Gaussian DP for reporting differential privacy guarantees
        in machine learning", 2025 (arXiv:2503.10945). The bounds are those of
        ``privopt.privacy.gaussian.covering_mu``.

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
        floor = check_target_delta(delta)
        gaussian = GaussianDP()
        if floor == 0.0 and gaussian.supports(self.event, self.relation):
            return gaussian.distance(self.event, self.relation)
        largest = self.epsilon(floor).upper
        if largest <= _MAX_EXPONENT:
            result = covering_mu(self.delta, largest, floor)
        elif self.epsilon(floor or _SMALL_DELTAS[0]).lower == math.inf:
            return Interval(math.inf, math.inf)
        else:  # the profile is bounded from below at a few points, and above a larger floor
            points = [(self.epsilon(each).lower, each) for each in _SMALL_DELTAS if each > floor]
            proofs = [gaussian_mu(x, each - floor) for x, each in points if x > 0.0]
            if floor < _SMALL_DELTAS[-1]:
                proofs.append(self.mu(_SMALL_DELTAS[-1]).lower)
            result = Interval(max(proofs, default=0.0), math.inf, _UNBOUNDED)
        upper = min(result.upper, unsampled_mu(self.event, self.relation))
        lower = min(result.lower, upper)
        return Interval(lower, upper, result.reason if upper > 1.001 * lower else "")

    @property
    def cites(self) -> tuple[str, ...]:
        """The papers behind the accountants that answer, as keys of ``references.bib``."""
        event = bounding_events(self.event)[0]
        asked = (getattr(each, "cites", ()) for each in self._accountants(event))
        return tuple(dict.fromkeys(key for keys in asked for key in keys))

    def meets(self, budget: Budget) -> bool:
        """Whether the releases are proved to stay within ``budget``.

        ``epsilon(budget.delta).upper <= budget.epsilon``, or the same by the Fourier accountant at
        ever finer accuracy, for as long as that can change the answer. What lies closer to the
        edge than it can tell does not count as met.
        """
        instance("budget", budget, Budget)
        if budget.relation is not self.relation:
            raise ValueError(
                f"budget.relation must be {self.relation.value}, got {budget.relation.value}"
            )
        spent = self.epsilon(budget.delta)
        if spent.upper <= budget.epsilon or spent.lower > budget.epsilon:
            return spent.upper <= budget.epsilon
        event = bounding_events(self.event)[0]
        for fourier in (Fourier(accuracy, two_sided=False) for accuracy in _FINER_ACCURACIES):
            if not fourier.supports(event, self.relation):
                return False
            upper = fourier.epsilon(event, self.relation, budget.delta).upper
            if upper <= budget.epsilon:
                return True
            if upper > budget.epsilon * (1.0 + 10.0 * fourier.accuracy):
                return False  # no finer mesh will bring it down so far
        return False

    def then(self, other: Guarantee) -> Guarantee:
        """Both releases from the same data, the second perhaps chosen in the light of the first."""
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
        """``k`` adaptive repetitions of the release."""
        k = check_count("k", k)
        return self._released(dp.SelfComposedDpEvent(self.event, k), self.assumptions)

    def group(self, k: int) -> Guarantee:
        """What the same releases promise to a group of up to ``k`` records.

        Its neighbours differ in up to ``k`` records that come together, go together, are all
        zeroed, or are replaced by as many others: those of a user, who gave no more.

        Exact for Gaussian and Laplace noise, which counts ``1/k`` as much, and for Gaussian noise
        on Poisson samples (but ``replace_one``; up to 500 records), a mixture of normal laws whose
        weights are binomial. Losses of pure releases and of bounded range add up. A composition
        with any other release has the general bound of
        :func:`privopt.privacy.group_privacy`, whose lower ends are those of one record.

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
        """The same relation; the parts of ``event`` are frozen, and are not looked at again."""
        made = copy(self)
        object.__setattr__(made, "event", event)
        object.__setattr__(made, "assumptions", tuple(dict.fromkeys(assumptions)))
        return made

    def _proved(self, ask: Callable[[Accountant, dp.DpEvent], Interval], worst: float) -> Interval:
        """What all accountants prove together of the two ends of the event's ``bracket``."""

        def best(event: dp.DpEvent) -> Interval:
            return _intersect((ask(each, event) for each in self._accountants(event)), worst)

        return combine_bounds(best, bounding_events(self.event))

    def _accountants(self, event: dp.DpEvent) -> Iterator[Accountant]:
        """All that support the event in turn, for a mixture its own; nobody after an exact one."""
        others: tuple[Accountant, ...] = (Mixture(), *TIGHT)
        for each in (Group(others), *others):
            if each.supports(event, self.relation):
                yield each
                if isinstance(each, NonPrivate | GaussianDP):
                    return


def _intersect(proofs: Iterator[Interval], worst: float) -> Interval:
    """The intersection of what is proved, within ``[0, worst]``, until it is narrow."""
    best = Interval(0.0, worst)
    for proof in proofs:
        reason = best.reason or proof.reason
        best = Interval(max(best.lower, proof.lower), min(best.upper, proof.upper), reason)
        if best.width == 0.0 or best.width <= _RELATIVE_WIDTH * best.upper < math.inf:
            return replace(best, reason="")
    return best if best.reason else replace(best, reason=_NOT_TIGHT)


def _members(event: dp.DpEvent) -> tuple[dp.DpEvent, ...]:
    """The members of a composition, so that chains of ``then`` stay flat."""
    return tuple(event.events) if isinstance(event, dp.ComposedDpEvent) else (event,)


def _translate_event(
    event: dp.DpEvent, relation: Relation
) -> tuple[dp.DpEvent, dp.NeighboringRelation]:
    """The event to ask dp-accounting's accountants about, and the relation to ask under.

    They agree with us on what an event is, and not always on what it costs:

    - under ``REPLACE_ONE`` its Rényi accountant charges additive noise for *one* record's
      contribution, where a replaced record moves a sum by two;
    - under ``REPLACE_SPECIAL`` a randomised response is charged for a null record that answers
      uniformly.

    So noise is halved before it leaves ``replace_one``, and stands under ``REPLACE_SPECIAL``, where
    everybody counts one contribution. A randomised response leaves as the pure release that it is.
    A public mixture leaves as one, its sides changed: dp-accounting has no word for it and refuses
    it. Halving cannot say what a Poisson sample is under ``replace_one``. There the event stays as
    it is: the loss distributions of dp-accounting know it, its Rényi accountant refuses it.
    """
    parts = list(_iterate_events(event))
    if relation is Relation.REPLACE_ONE and any(
        isinstance(part, _POISSON_EVENTS) for part in parts
    ):
        _translate(event, Relation.ZERO_OUT)  # which refuses what is unknown
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
    """The same tree with every release as it says itself (``Release.exported``)."""
    if isinstance(event, dp.ComposedDpEvent):
        return dp.ComposedDpEvent([_translate(part, relation) for part in event.events])
    if isinstance(event, PublicMixtureDpEvent) and release_of(event) is not None:
        return attr.evolve(event, events=tuple(_translate(part, relation) for part in event.events))
    if isinstance(event, _WRAPPERS):
        return attr.evolve(event, event=_translate(event.event, relation))
    release = release_of(event)
    told = None if release is None else release.exported(relation)
    if told is None:
        raise ValueError(f"event must be of a kind that others read as we do, got {shown(event)}")
    return told


Answer = TypeVar("Answer")


class UnsupportedEventError(ValueError):
    """An accountant was asked about an event that it does not understand."""


def find_accountant(
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
    wanted = _normalise(accountant)
    exact = [each for name, each in names.items() if _normalise(name) == wanted]
    near = [each for name, each in names.items() if _normalise(name).startswith(wanted)]
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
    ends = bounding_events(event)

    def known(part: dp.DpEvent) -> bool:
        return any(each.supports(part, relation) for each in asked)

    if not all(known(each) for each in ends):
        who = f"{asked[0].name} does not support" if len(asked) == 1 else "no accountant supports"
        culprit = first_unsupported(event, known)
        reason = f": {invalid_parameter(culprit)}" if invalid_parameter(culprit) else ""
        kind = type(culprit).__name__
        raise UnsupportedEventError(f"{who} {kind} under {relation.value}{reason}")
    return ends


def _normalise(name: str) -> str:
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
    return find_accountant(accountant).supports(guarantee.event, guarantee.relation)


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
    chosen, guarantee, ends = _resolve(event, relation, accountant)
    if chosen is None:
        return combine_bounds(lambda each: Guarantee(each, guarantee.relation).epsilon(delta), ends)
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
    chosen, guarantee, ends = _resolve(event, relation, accountant)
    if chosen is None:
        return combine_bounds(lambda each: Guarantee(each, guarantee.relation).delta(epsilon), ends)
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
    chosen, guarantee, ends = _resolve(event, relation, accountant)
    if chosen is None:
        return Guarantee(ends[0], guarantee.relation).trade_off(values)
    return chosen.trade_off(guarantee.event, guarantee.relation, values)


def _resolve(
    event: dp.DpEvent, relation: Relation | str, accountant: Respondent[object, object] | str | None
) -> tuple[Respondent[object, object] | None, Guarantee, tuple[dp.DpEvent, dp.DpEvent]]:
    """The accountant meant, the event with its relation, both checked, and its ``bracket``."""
    guarantee = Guarantee(event, Relation.named("relation", relation))
    chosen = None if accountant is None else find_accountant(accountant)
    asked = ACCOUNTANTS if chosen is None else (chosen,)
    return chosen, guarantee, check_supported(event, guarantee.relation, asked)
