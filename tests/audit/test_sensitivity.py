"""Sensitivities of all bounded queries, by a search for neighbours with distant answers.

A query is added by one line in ``QUERIES``.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import pytest
from neighbours import largest_ratio

from privopt.convex import Separable, Sine, SparseFeatures, WholeSpace
from privopt.mechanisms import (
    ClippedGradient,
    ClippedMean,
    ClippedMoments,
    ClippedRisk,
    RegularisedMinimiser,
)
from privopt.problems import (
    EmpiricalRisk,
    GeneralisedLinear,
    Linear,
    Logistic,
    Squared,
    SquaredDistance,
)
from privopt.spec import Norm, ProblemClass, Relation
from privopt.statistics import BoundedMean, BoundedScores, BoundedSum, Count, Histogram, Median
from privopt.statistics.sparse_vector import MeanGap

pytestmark = pytest.mark.optimised

N, DIM, CLIP = 6, 3, 0.7
REPLACE, ADD, ZERO = Relation.REPLACE_ONE, Relation.ADD_OR_REMOVE_ONE, Relation.ZERO_OUT
BOTH, DOUBLE = (np.float32, np.float64), (np.float64,)
POINT = np.array([0.3, -0.2, 0.1])


class Case(NamedTuple):
    """Query, its claimed sensitivity, and the share of it that the search must attain."""

    answer: Any
    claimed: Any
    length: Any = Norm.L2
    columns: int = 0
    dtypes: tuple = BOTH
    relations: tuple = (REPLACE, ADD)
    special: tuple = (1.0,)
    attained: float = 0.99


def statistic(query, norm=Norm.L2, **options):
    claim = {Norm.L1: "l1_sensitivity", Norm.L2: "sensitivity"}[norm]

    def answer(records, present):
        return query.answer(records, present > 0.0)

    return Case(answer, getattr(query, claim), norm, **options)


# Functions from rows of ``DIM + 1`` numbers to the records of a loss.
def labelled(scalar):
    return lambda x: (GeneralisedLinear(scalar), (x[:, :-1], x[:, -1]))


def sparse(x):
    return SparseFeatures(jnp.broadcast_to(jnp.arange(DIM), x[:, :-1].shape), x[:, :-1], DIM)


FORMS = {
    "linear": labelled(Linear()),
    "logistic": labelled(Logistic()),
    "squared": labelled(Squared()),
    "sparse": lambda x: (GeneralisedLinear(Linear()), (sparse(x), x[:, -1])),
    "general": lambda x: (lambda w, record: record[:-1] @ w, x),
    "cubic": lambda x: (lambda w, record: (record[:-1] @ w - record[-1]) ** 3, x),
    "coordinates": lambda x: (Separable(Sine()), sparse(x)),
    "distances": lambda x: (SquaredDistance(2.0), x[:, :-1]),
    "sparse distances": lambda x: (SquaredDistance(2.0), sparse(x)),
}


def risk(form, x, present):
    return EmpiricalRisk(*form(x), present, WholeSpace())


def gradient(name, measured, norm, gamma, **options):
    facts = ProblemClass(n=N, dim=DIM, lipschitz=CLIP, radius=1.0)
    query = ClippedGradient.of(facts, CLIP, gamma=gamma, norm=measured)

    def answer(x, present):
        return query.gradient_of(risk(FORMS[name], x, present))(jnp.asarray(POINT, x.dtype))

    claim = {"l1": "l1_sensitivity", "l2": "sensitivity", "linf": "linf_sensitivity"}[norm]
    return Case(answer, getattr(query, claim), norm, DIM + 1, **options)


def mean(norm, **numbers):
    query = ClippedMean(**{"l2_clip": 1.0, "l1_clip": 1.2, "size": float(N), "dim": DIM} | numbers)
    claim = query.l1_sensitivity if norm is Norm.L1 else query.sensitivity

    def answer(x, present):
        return query.mean_of(risk(FORMS["distances"], x, present))

    return Case(answer, claim, norm, DIM + 1, DOUBLE)


def moments(weight):
    query = ClippedMoments(1.0, 0.5, weight, float(N), DIM)

    def answer(x, present):
        return query.answer(risk(FORMS["squared"], x, present), jnp.asarray(POINT))[0]

    return Case(answer, query.sensitivity, Norm.L2, DIM + 1, DOUBLE, attained=0.95)


def spread(differences):
    """Return the largest minus the smallest coordinate."""
    return differences.max(axis=1) - differences.min(axis=1)


def risks(name, **options):
    query = ClippedRisk.of(ProblemClass(n=N, dim=DIM, lipschitz=CLIP, radius=2.0))
    points = jnp.concatenate([2.0 * jnp.eye(DIM), -2.0 * jnp.eye(DIM)])

    def answer(x, present):
        value = query.risk_of(risk(FORMS[name], x, present), jnp.zeros(DIM), 1e-3)
        return jnp.stack([value(w)[0] for w in points])

    return Case(answer, query.range, spread, DIM + 1, DOUBLE, **options)


def minimiser():
    facts = ProblemClass(n=N, dim=DIM, lipschitz=CLIP, radius=math.inf, smoothness=0.0)
    query = RegularisedMinimiser.of(facts, REPLACE, regularisation=0.5)

    def answer(x, present):
        return query.minimiser_of(risk(FORMS["linear"], x, present))(jnp.zeros(DIM))

    return Case(answer, query.sensitivity, Norm.L2, DIM + 1, DOUBLE)


def smooth(beta):
    """Return the case of the logarithm of a smooth bound, with sensitivity ``beta + 2^-18``."""
    return Case(
        lambda x, _: jnp.log(Median.of(-1.0, 1.0).smooth_sensitivity(x, beta)),
        lambda _: beta + 2.0**-18,
        relations=(REPLACE,),
    )


BINS, TRAINING = Histogram((-10.0, -1.0, 0.0, 1.0, 10.0)), jnp.array([0.1, 0.7])
QUERIES = {
    "count": statistic(Count(), relations=(ADD,)),
    "sum": statistic(BoundedSum.of(-2.0, 1.0), special=(1.0, 2.0), attained=0.98),
    "sum, offset": statistic(BoundedSum.of(2000.0, 2020.0), special=(2000.0, 2020.0), attained=0.3),
    "mean": statistic(BoundedMean.of(0.0, 2.0, N), special=(1.0, 2.0)),
    "mean, offset": statistic(BoundedMean.of(2e3, 2.02e3, N), special=(2e3, 2.02e3)),
    "mean, narrow": statistic(BoundedMean.of(1e-30, 2e-30, N), special=(1e-30, 2e-30)),
    "mean, wide": statistic(BoundedMean.of(-1e30, 1e30, N), special=(1e30,)),
    "histogram": statistic(BINS),
    "histogram, l1": statistic(BINS, Norm.L1),
    "scores": Case(
        lambda x, present: BINS.answer(x, present > 0.0),
        BoundedScores.of(1.0, monotone=True).score_range,
        spread,
    ),
    "gap": Case(
        lambda x, _: MeanGap(BoundedMean.of(0.0, 1.0, N)).answer(TRAINING.astype(x.dtype), x),
        MeanGap(BoundedMean.of(0.0, 1.0, N)).l1_sensitivity,
        relations=(REPLACE,),
    ),
    "smooth median": smooth(0.3),
    "distance to instability": Case(
        lambda x, _: Median.of(-1.0, 1.0).distance_to_instability(x, 0.5),
        lambda _: 1.0,
        relations=(REPLACE,),
    ),
    "clipped mean": mean(Norm.L2),
    "clipped mean, l1": mean(Norm.L1),
    "clipped mean, tiny": mean(Norm.L2, l2_clip=1e-25, l1_clip=2e-25),
    "moments, near": moments(1.0),
    "moments, far": moments(5.0),
    "risk, linear": risks("linear"),
    # From the centre, a logistic loss increases by at most 1.4 and decreases by at most ln 2: .748.
    "risk, logistic": risks("logistic", attained=0.73),
    "risk, squared": risks("squared"),
    "minimiser": minimiser(),
    **{f"gradient, {name}": gradient(name, "l2", "l2", None) for name in FORMS},
    **{
        f"gradient, {name}, {measured} in {norm}, {gamma}": gradient(
            name, measured, norm, gamma, relations=(REPLACE,), attained=0.9
        )
        for name in ("linear", "general", "coordinates")
        for measured, norm, gamma in (
            ("linf", "linf", None),
            ("linf", "l2", None),
            ("l1", "l1", None),
            ("l2", "l1", None),
            ("l2", "l2", 0.1),
        )
    },
}


def ratio(case, relation, dtype):
    rng = np.random.default_rng(1)
    start = rng.normal(size=(N, case.columns) if case.columns else N).astype(dtype)
    return largest_ratio(
        case.answer,
        case.claimed(relation),
        start,
        relation=relation,
        length=Norm(case.length) if isinstance(case.length, str) else case.length,
        special=case.special,
    )


@pytest.mark.cases(8)
@pytest.mark.parametrize("name", QUERIES)
def test_no_neighbours_move_a_query_further_than_it_claims(name):
    case = QUERIES[name]
    ratios = {
        (relation, dtype): ratio(case, relation, dtype)
        for relation in case.relations
        for dtype in case.dtypes
    }
    assert all(case.attained <= each <= 1.0 for each in ratios.values()), ratios


def test_a_claim_of_half_the_sensitivity_is_refuted():
    def halved(records, present):
        return jnp.clip(jnp.nan_to_num(records), -1.0, 1.0) @ present

    ratio = largest_ratio(halved, 1.0, np.zeros(4), relation=REPLACE, length=Norm.L2)
    assert ratio == pytest.approx(2.0, rel=1e-6)
