"""An audit by one run: many records are put in or left out by coins, and the coins are guessed."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import Array
from scipy.special import bdtrc, ndtr, ndtri

from privopt import problems
from privopt.algorithms import ALGORITHMS
from privopt.arguments import instance, member, positive_integer, shown
from privopt.audit.pairs import attackable, choices_of, class_of
from privopt.core import run
from privopt.spec import Budget, Relation

_LARGEST = 100.0  # no epsilon or mu above it is looked for
_HALVINGS = 60


class OneRun(NamedTuple):
    """``right`` of ``guesses`` coins were guessed; at least ``epsilon`` is spent at ``delta``.

    ``mu`` is the same of Gaussian differential privacy, a claim of a whole trade-off curve.
    ``claimed`` is what the guarantee says at most of epsilon. An ``epsilon`` above it refutes the
    guarantee, which happens to one that is kept with probability ``failure`` at most.
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
    """A lower bound on epsilon from one run of ``algorithm`` on ``canaries`` records.

    Record ``i`` is the ``i``-th basis vector or zeros, by a fair coin; losses are ``-<w, x>``.
    Coins are guessed by the released coordinates: the largest in, the least out. The relation must
    be ``zero_out``: to leave a record out is to put zeros in its place.

    Sources: Steinke, Nasr and Jagielski (2023), Theorem 5.2, of which :func:`least_epsilon` is the
    inverse; Mahloujifar, Melis and Chaudhuri (2024), Theorem 9, for :func:`least_mu`. Both are
    below the many-run :func:`audit`: the first wherever the claimed curve is not that of randomised
    response, the second since its bound of the chance of many right guesses is no equality.

    Parameters
    ----------
    guesses : int, optional
        For how many coins a guess is made, the clearest first; default a tenth.

    Examples
    --------
    >>> budget = Budget(epsilon=4.0, delta=1e-5, relation="zero_out")
    >>> found = one_run("dp_gd", budget, key=jax.random.key(0))
    >>> 0.5 < found.epsilon < found.claimed, found.mu > 0.3
    (True, True)
    """
    member("algorithm", algorithm, attackable())
    if instance("budget", budget, Budget).relation is not Relation.ZERO_OUT:
        raise ValueError(f"relation must be zero_out, got {budget.relation.value}")
    positive_integer("canaries", canaries)
    guesses = max(1, canaries // 10) if guesses is None else positive_integer("guesses", guesses)
    if guesses > canaries:
        raise ValueError(f"guesses must be at most canaries = {canaries}, got {guesses}")
    facts = replace(class_of(algorithm), n=canaries, dim=canaries)
    choices = dict(choices_of(algorithm))
    if "batch_size" in choices:
        choices["batch_size"] = max(1, canaries // 4)
    plan = ALGORITHMS[algorithm].plan(facts, budget, **choices)
    if {"mean", "squares"} & set(plan.requires):
        raise ValueError(f"algorithm must take linear losses, got {algorithm}")
    coins, noise = jax.random.split(key)
    here = np.asarray(jax.random.bernoulli(coins, shape=(canaries,)))
    found: Any = run(plan, problems.linear(np.diag(here * 1.0), problem_class=facts), noise)
    last = found.released if found.path is None else found.path.points[-1]
    score = np.asarray(last, np.float64).ravel()
    order = np.argsort(score, kind="stable")
    out, into = order[: guesses // 2], order[canaries - (guesses - guesses // 2) :]
    right = int(here[into].sum() + (~here[out]).sum())
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
    """The largest epsilon that ``right`` of ``guesses`` refute at ``failure``; 0 if none is.

    With ``W ~ Binomial(guesses, 1/(1 + e^-epsilon))``, an (epsilon, delta)-DP run lets ``right`` or
    more be guessed with probability at most ``P(W >= right) + 2 m delta max_i P(right - i <= W <
    right)/i``, ``m = canaries``.

    Examples
    --------
    >>> round(least_epsilon(1000, 100, 95, 0.0, 0.05), 3)
    2.172
    """

    def refuted(epsilon: float) -> bool:
        q, i = 1.0 / (1.0 + math.exp(-epsilon)), np.arange(1, right + 1)
        at_least = bdtrc(right - 1.0, guesses, q) if right else 1.0
        below = np.where(i < right, bdtrc(right - i - 1.0, guesses, q), 1.0) - at_least
        return bool(at_least + 2.0 * canaries * delta * np.max(below / i, initial=0.0) <= failure)

    return _largest(refuted, failure)


def least_mu(canaries: int, guesses: int, right: int, failure: float) -> float:
    """The largest mu that ``right`` of ``guesses`` refute at ``failure``; 0 if none is.

    With ``p_i`` the probability of ``i`` right guesses, ``r_k = sum_{i >= k} p_i i/m`` is that of
    at least ``k`` right ones, a random canary's among them; with its coin turned over, that canary
    is guessed wrongly, in ``h_{k-1}`` where ``h_k = sum_{i >= k} p_i (guesses - i)/m``. So ``r_k <=
    Phi(Phi^-1(h_{k-1}) + mu)`` for every ``k``. From ``r`` and ``h`` of ``P(right or more) =
    failure`` downwards this asks for ever more probability; if for more than there is, mu is
    refuted.

    Source: Mahloujifar, Melis and Chaudhuri, "Auditing f-differential privacy in one run", 2024,
    Theorem 9 and Algorithm 3.

    Examples
    --------
    >>> round(least_mu(1000, 100, 95, 0.05), 3)
    0.787
    """

    def refuted(mu: float) -> bool:
        here, there = (failure * each / canaries for each in (right, guesses - right))
        for i in range(right - 1, -1, -1):
            more = max(0.0, float(ndtr(ndtri(here) - mu)) - there)
            here, there = here + more * i / (guesses - i), there + more
        return here + there > guesses / canaries

    return _largest(refuted, failure)


def _largest(refuted: Callable[[float], bool], failure: float) -> float:
    """The largest number up to ``_LARGEST`` that is refuted, 0 if none is."""
    if not 0.0 < failure < 1.0:
        raise ValueError(f"failure must be above 0 and below 1, got {shown(failure)}")
    low, high = 0.0, _LARGEST
    if not refuted(low):
        return 0.0
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if refuted(middle) else (low, middle)
    return low
