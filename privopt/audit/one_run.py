"""Audit of a single run: random records are included, and the attack guesses which."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import Array
from scipy.optimize import brentq
from scipy.special import bdtrc, ndtr, ndtri

from privopt import problems
from privopt.algorithms import ALGORITHMS
from privopt.arguments import instance, member, positive_integer, shown
from privopt.audit.distinguishing import check_failure
from privopt.audit.pairs import attackable, worst_choices, worst_class
from privopt.core import run
from privopt.privacy.numbers import check_count, check_delta
from privopt.random import as_key
from privopt.spec import Budget, Relation

_ENDS = (0.0, *(2.0**power for power in range(-10, 8)))  # of intervals that are searched


class OneRun(NamedTuple):
    """Result of a one-run audit: lower bounds on the privacy loss, and the claim.

    ``right`` of ``guesses`` guesses are correct. With probability ``1 - failure`` or more, the true
    epsilon at ``delta`` is at least ``epsilon``, and the true ``mu`` of Gaussian differential
    privacy at least ``mu``. ``claimed`` is the upper bound on epsilon of the guarantee. An
    ``epsilon`` above it refutes the guarantee; for a correct guarantee this has probability at most
    ``failure``.
    """

    algorithm: str
    canaries: int
    guesses: int
    right: int
    epsilon: float
    mu: float
    claimed: float
    delta: float
    failure: float


def one_run(
    algorithm: str,
    budget: Budget,
    *,
    key: Array,
    canaries: int = 1_000,
    guesses: int | None = None,
    failure: float = 0.05,
) -> OneRun:
    """Compute a lower bound on epsilon from one run of ``algorithm`` on ``canaries`` records.

    Record ``i`` is included with probability 1/2: it is the ``i``-th basis vector or zeros. Losses
    are ``-<w, x>``. The attack guesses that the records with the largest released coordinates are
    included, and those with the smallest are not. The relation must be ``zero_out``, because an
    excluded record is zero.

    Sources: Steinke, Nasr and Jagielski (2023), Theorem 5.2, of which :func:`least_epsilon` is the
    inverse; Mahloujifar, Melis and Chaudhuri (2024), Theorem 9, for :func:`least_mu`. Both bounds
    are smaller than those of the many-run :func:`audit`: the first unless the claimed curve is that
    of randomised response, the second because its bound on the probability of many correct guesses
    is not attained.

    Parameters
    ----------
    algorithm : str
        Name of a private algorithm of ``ALGORITHMS`` for linear losses.
    budget : Budget
        Privacy budget of the run, under ``zero_out``.
    key : Array
        Typed key of JAX, for the random inclusion and the noise.
    canaries : int
        Number of records.
    guesses : int, optional
        Number of guesses, for the most extreme coordinates; default a tenth of ``canaries``.
    failure : float
        Probability, in (0, 1), that a bound is above the true value.

    Examples
    --------
    >>> budget = Budget(epsilon=4.0, delta=1e-5, relation="zero_out")
    >>> result = one_run("dp_gd", budget, key=jax.random.key(0))
    >>> 0.5 < result.epsilon < result.claimed, result.mu > 0.3
    (True, True)
    """
    member("algorithm", algorithm, attackable())
    if instance("budget", budget, Budget).relation is not Relation.ZERO_OUT:
        raise ValueError(f"relation must be zero_out, got {budget.relation.value}")
    key = as_key(key)
    positive_integer("canaries", canaries)
    guesses = max(1, canaries // 10) if guesses is None else positive_integer("guesses", guesses)
    _check_guesses(canaries, guesses)
    check_failure(failure)
    facts = replace(worst_class(algorithm), n=canaries, dim=canaries)
    choices = dict(worst_choices(algorithm))
    if "batch_size" in choices:
        choices["batch_size"] = max(1, canaries // 4)
    plan = ALGORITHMS[algorithm].plan(facts, budget, **choices)
    if {"mean", "squares"} & set(plan.requires):
        raise ValueError(f"algorithm must take linear losses, got {algorithm}")
    inclusion_key, noise_key = jax.random.split(key)
    included = np.asarray(jax.random.bernoulli(inclusion_key, shape=(canaries,)))
    problem = problems.linear(np.diag(included * 1.0), problem_class=facts)
    result: Any = run(plan, problem, noise_key)
    last = result.released if result.path is None else result.path.points[-1]
    score = np.asarray(last, np.float64).ravel()
    order = np.argsort(score, kind="stable")
    smallest, largest = order[: guesses // 2], order[canaries - (guesses - guesses // 2) :]
    right = int(included[largest].sum() + (~included[smallest]).sum())
    return OneRun(
        algorithm,
        canaries,
        guesses,
        right,
        least_epsilon(canaries, guesses, right, budget.delta, failure),
        least_mu(canaries, guesses, right, failure),
        plan.guarantee.epsilon(budget.delta).upper,
        budget.delta,
        failure,
    )


def least_epsilon(canaries: int, guesses: int, right: int, delta: float, failure: float) -> float:
    """Compute the largest epsilon that ``right`` of ``guesses`` refute; 0 if none is refuted.

    With ``W ~ Binomial(guesses, 1/(1 + e^-epsilon))``, an ``(epsilon, delta)``-DP run allows
    ``right`` or more correct guesses with probability at most

        ``P(W >= right) + 2 canaries delta max_i P(right - i <= W < right)/i``.

    An epsilon for which this is at most ``failure`` is refuted.

    Parameters
    ----------
    canaries, guesses, right : int
        Numbers of records, guesses and correct guesses, in non-increasing order.
    delta : float
        Delta of the claim, in [0, 1).
    failure : float
        Probability, in (0, 1), that the result is above the true epsilon.

    Examples
    --------
    >>> round(least_epsilon(1000, 100, 95, 0.0, 0.05), 3)
    2.172
    """
    canaries, guesses, right = _check_counts(canaries, guesses, right)
    delta, failure = check_delta(delta), check_failure(failure)

    def excess(epsilon: float) -> float:
        probability = 1.0 / (1.0 + math.exp(-epsilon))

        def tail(count: int) -> float:
            """Return ``P(W >= count)``."""
            return 1.0 if count <= 0 else float(bdtrc(count - 1.0, guesses, probability))

        at_least = tail(right)
        if delta == 0.0 or right == 0:
            return failure - at_least
        return failure - at_least - 2.0 * canaries * delta * _largest_mean(tail, right)

    return _root(excess)


def _largest_mean(tail: Callable[[int], float], right: int) -> float:
    """Compute ``max_i P(right - i <= W < right)/i`` for ``1 <= i <= right``.

    The probabilities ``P(W = right - i)`` rise and then fall in ``i``, so their running means do as
    well. The means rise as long as the next probability is above the present mean, which a binary
    search finds.
    """
    at_least = tail(right)

    def mean(i: int) -> float:
        return (tail(right - i) - at_least) / i

    low, high = 1, right  # the largest mean is at low, at high or between them
    while low < high:
        middle = (low + high) // 2
        following = tail(right - middle - 1) - tail(right - middle)
        low, high = (middle + 1, high) if following > mean(middle) else (low, middle)
    return mean(low)


def least_mu(canaries: int, guesses: int, right: int, failure: float) -> float:
    """Compute the largest mu that ``right`` of ``guesses`` refute; 0 if none is refuted.

    Let ``p_i`` be the probability of ``i`` correct guesses. A random canary is guessed correctly in
    a run with ``k`` or more correct guesses with probability ``r_k = sum_{i >= k} p_i i/m``. If its
    inclusion is reversed, the same guess is wrong, and
    ``h_k = sum_{i >= k} p_i (guesses - i)/m``. Gaussian differential privacy therefore gives
    ``r_k <= Phi(Phi^-1(h_{k-1}) + mu)`` for every ``k``. Starting from
    ``P(right or more) = failure``, these inequalities bound the total probability from below, and
    the bound increases as ``k`` decreases. A mu for which it exceeds 1 is refuted.

    Parameters
    ----------
    canaries, guesses, right : int
        Numbers of records, guesses and correct guesses, in non-increasing order.
    failure : float
        Probability, in (0, 1), that the result is above the true mu.

    Source: Mahloujifar, Melis and Chaudhuri, "Auditing f-differential privacy in one run", 2024,
    Theorem 9 and Algorithm 3.

    Examples
    --------
    >>> round(least_mu(1000, 100, 95, 0.05), 3)
    0.787
    """
    canaries, guesses, right = _check_counts(canaries, guesses, right)
    failure = check_failure(failure)
    total = guesses / canaries

    def excess(mu: float) -> float:
        correct, wrong = (failure * count / canaries for count in (right, guesses - right))
        for i in range(right - 1, -1, -1):
            forced = float(ndtr(ndtri(correct) - mu)) - wrong
            if forced <= 0.0:
                break  # both sums are final
            correct, wrong = correct + forced * i / (guesses - i), wrong + forced
            if correct + wrong > 2.0 * total or correct >= 1.0:
                break  # refuted: the total only grows
        return math.log((correct + wrong) / total)

    return _root(excess)


def _root(excess: Callable[[float], float]) -> float:
    """Compute the end of the interval from 0 on which ``excess`` is positive; 0 if it is empty."""
    if excess(0.0) <= 0.0:
        return 0.0
    for low, high in pairwise(_ENDS):
        if excess(high) <= 0.0:
            return float(brentq(excess, low, high, xtol=1e-15, rtol=1e-15))
    return _ENDS[-1]


def _check_counts(canaries: object, guesses: object, right: object) -> tuple[int, int, int]:
    """Return the three numbers, or raise ``ValueError`` if they cannot be counts of one audit."""
    records = positive_integer("canaries", canaries)
    tries = positive_integer("guesses", guesses)
    _check_guesses(records, tries)
    hits = check_count("right", right)
    if hits > tries:
        raise ValueError(f"right must be at most guesses = {tries}, got {shown(right)}")
    return records, tries, hits


def _check_guesses(canaries: int, guesses: int) -> None:
    """Raise ``ValueError`` if there are more guesses than records."""
    if guesses > canaries:
        raise ValueError(f"guesses must be at most canaries = {canaries}, got {guesses}")
