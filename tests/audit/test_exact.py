"""Claims about Gaussian noise and small mixtures, compared with the exact law."""

import math
from functools import partial
from itertools import pairwise, product

import numpy as np
import pytest
from builders import claimed_mu
from scipy import integrate, stats

import privopt
from privopt.factorisations import FACTORISATIONS
from privopt.mechanisms import (
    AllRecords,
    CyclicPoissonBatches,
    OrderedBatches,
    ShuffledBatches,
    noise_of,
)
from privopt.mechanisms.noise import RestartedNoise, SeriesNoise
from privopt.privacy import Guarantee
from privopt.spec import Budget, Relation

N, STEPS = 12, 8
MOVES = np.array(list(product((-1, 0, 1), repeat=STEPS)))  # what a record adds in each step
BATCHES = {
    "all": AllRecords(),
    "one pass": OrderedBatches.of(1, N),
    "two passes": OrderedBatches.of(3, N, epochs=2),
    "many passes": OrderedBatches.of(6, N, epochs=4),
    "passes of a batch": OrderedBatches.of(4, N, epochs=3, order="random"),
    "shuffled": ShuffledBatches.of(4, N),
}
RELATIONS = (Relation.ZERO_OUT, Relation.REPLACE_ONE)


def noises():
    """Return constructors of all noises by name, also of noises that are restarted."""
    result = {name: partial(noise_of, name) for name in FACTORISATIONS}
    for name, period in product(("tree", "honaker", "toeplitz", "optimal"), (3, 4)):
        again = RestartedNoise(noise_of(name, period), period)
        result[f"{name}, every {period}"] = lambda _, again=again: again
    return result


def allowed(moves, times, gap, even):
    """Return a mask of the rows with at most ``times`` steps that have at least the given gap."""
    steps, places = np.arange(moves.shape[1]), moves != 0
    result = places.sum(axis=1) <= times
    for i in steps:
        for j in steps[i + 1 :]:
            allowed_pair = j - i >= gap and not (even and (j - i) % gap)
            result &= allowed_pair | ~(places[:, i] & places[:, j])
    return result


@pytest.mark.parametrize("make", noises().values(), ids=noises())
def test_no_record_moves_a_transcript_further_than_is_charged(make):
    """Compare the claim with all patterns and signs of a record, one of which attains it.

    The exception is a single step of restarted noise, which is charged as a complete epoch.
    """
    ratios = {}
    for (kind, batches), steps in product(BATCHES.items(), (1, 5, STEPS)):
        noise, moves = make(steps), MOVES[: 3**steps, STEPS - steps :]
        limits = batches.participation(steps, Relation.ZERO_OUT)
        encoder = noise.factorisation(steps).encoder()
        mine = moves[allowed(moves, limits.times, limits.gap, limits.even)]
        truth = np.sqrt((np.square(mine @ encoder.T)).sum(axis=1).max())
        for relation in RELATIONS:
            claimed = claimed_mu(noise.event(batches, 3.0, steps, relation), relation)
            ratios[kind, steps, relation.value] = relation.multiple * truth / 3.0 / claimed
            assert steps == 1 or ratios[kind, steps, relation.value] > 1.0 - 1e-7
    worst = max(ratios, key=ratios.get)
    assert ratios[worst] <= 1.0, f"{ratios[worst]} at {worst}, of {len(ratios)}"


def delta_of(densities, epsilon):
    """Return ``delta(epsilon)`` for two vectors of probabilities, in the worse order."""
    limit = math.exp(epsilon)
    return max(float(np.maximum(p - limit * q, 0.0).sum()) for p, q in (densities, densities[::-1]))


def transcripts(sizes, rate, relation):
    """Return probabilities of cells of the products of ``(1 - q) N(0, 1) + q N(+-size, 1)``.

    Cells have width 1/40, and the density is that of the midpoint. A step has one dimension,
    because only the direction of the difference matters.
    """
    grid = np.arange(-12.0, 12.0, 0.025) + 0.0125
    result = []
    for sign in (1.0, -1.0 if relation is Relation.REPLACE_ONE else 0.0):
        whole = np.ones(1)
        for size in sizes:
            parts = [stats.norm.pdf(grid, centre) * 0.025 for centre in (0.0, sign * size)]
            mixed = (1.0 - rate) * parts[0] + rate * parts[1]
            whole = np.multiply.outer(whole, mixed).ravel()
        result.append(whole)
    return result


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("coefficients", [(1.0,), (1.0, 0.7), (1.0, 0.5)])
@pytest.mark.parametrize(("size", "steps"), [(1.0, 2), (1.0, 4), (1.5, 4)])
def test_sampled_steps_that_share_no_row_are_charged_what_they_cost(
    relation, coefficients, size, steps
):
    """Test cyclic Poisson batches of two blocks; every block has one or two steps."""
    budget = Budget(epsilon=1.0, delta=1e-3, relation=relation)
    batches = CyclicPoissonBatches.of(size, 4, 2, budget=budget, steps=4, capacity=2)
    noise, z = SeriesNoise(np.array(coefficients), np.ones(1)), 1.5
    claims = Guarantee(noise.event(batches, z, steps, relation), relation)
    column = np.linalg.norm(np.float32(coefficients))
    densities = transcripts([column / z] * (steps // 2), batches.sample.rate, relation)
    for epsilon in (0.1, 1.0):
        claimed, truth = claims.delta(epsilon).upper, delta_of(densities, epsilon)
        assert 0.998 < truth / claimed <= 1.0 + 1e-6, truth / claimed


@pytest.mark.cases(2)
@pytest.mark.parametrize("measurements", [1, 2, 5, 40])
@pytest.mark.parametrize("relation", RELATIONS)
def test_recovery_is_charged_the_mixture_over_its_matrix(measurements, relation):
    """Test the noise of a plan. Given the matrix, the sensitivity is ``v sqrt(chi^2_m/m)``."""
    facts = privopt.ProblemClass(
        n=50, dim=60, lipschitz=2.0, radius=1.0, smoothness=1.0, strong_convexity=1.0, sparsity=1
    )
    budget = Budget(epsilon=1.0, delta=1e-3, relation=relation)
    plan = privopt.l1_recovery(facts, budget, measurements=measurements)
    mu = relation.multiple / facts.n / plan.params.mechanism.scale  # records are of norm 1

    def given(square, epsilon):
        s = mu * math.sqrt(square / measurements)
        upper = stats.norm.cdf(0.5 * s - epsilon / s)
        return upper - math.exp(epsilon) * stats.norm.cdf(-0.5 * s - epsilon / s)

    law = stats.chi2(measurements)
    ends = [*law.ppf([1e-14, 0.5, 0.99]).tolist(), law.isf(1e-14)]
    for epsilon in (0.1, 1.0, 2.0):

        def weighed(square, epsilon=epsilon):
            return law.pdf(square) * given(square, epsilon)

        truth = sum(integrate.quad(weighed, *each, epsrel=1e-10)[0] for each in pairwise(ends))
        claimed = plan.guarantee.delta(epsilon).upper
        assert 0.999 < truth / claimed <= 1.0 + 1e-9, truth / claimed
