"""Room of data: they are seen through noisy answers alone, and nothing else depends on them."""

import math
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from events import REPLACE
from museum.exhibits import descent, exhibit, noisy_step, replayed
from scipy import optimize, special, stats

from privopt.convex import EmpiricalRisk, GeneralisedLinear, WholeSpace
from privopt.mechanisms import (
    ClippedGradient,
    OrderedBatches,
    PoissonBatches,
    PrivateGradient,
    RegularisedMinimiser,
)
from privopt.mechanisms.batches import poisson_sampler
from privopt.problems import Linear, Logistic
from privopt.spec import ProblemClass

KEY = jax.random.key(0)


def oracle(batches, rows, counts=None):
    """Of linear losses ``-<w, x>``."""
    query = ClippedGradient.of(ProblemClass(n=16, dim=1, lipschitz=1.0, radius=1.0))
    mechanism = PrivateGradient(query=query, batches=batches, scale=0.5, steps=3)
    data = jnp.asarray(rows), jnp.ones(len(rows))
    risk = EmpiricalRisk(GeneralisedLinear(Linear()), data, counts, WholeSpace())
    return mechanism.oracle(risk, KEY)


# --- divisors -------------------------------------------------------------------------------------


def public_mean(rows, members):
    """Over a batch of expected size 4 of 16 records, of which so many came."""
    found = oracle(PoissonBatches(0.25, 4.0, 8, 16), rows)
    batch = jnp.arange(8), jnp.arange(8) < members
    return float(-found.mean(jnp.zeros(1), batch)[0])


def of_those_present(rows, members):
    return float(rows[:members].sum()) / max(1, members)


def of_the_length(rows, members):
    return float(rows[:members].sum()) / math.floor(0.25 * len(rows))


@exhibit(public_mean, of_those_present, of_the_length)
def test_divisors_are_public(mean):
    """A divisor that is the realised batch, or follows the size of the data: a record more, in the
    batch or not, moves the mean by its share at most.
    """
    for size, members in ((11, 6), (12, 0)):
        before = mean(np.ones((size, 1)), members)
        for more in (0, 1):
            moved = mean(np.ones((size + 1, 1)), members + more) - before
            assert abs(moved) <= 0.25 * (1.0 + 1e-9)


@exhibit(public_mean, lambda rows, members: rows[:members].mean() if members else math.nan)
def test_an_empty_batch_is_no_event(mean):
    """A batch of nobody that fails, or is told by its answer: it is a number, and that is 0."""
    assert mean(np.ones((12, 1)), 0) == 0.0


# --- samplers -------------------------------------------------------------------------------------

RATE, RECORDS, DRAWS = 0.5, 20, 2000


def inclusions(rows, taken, records=RECORDS):
    found = np.zeros((len(rows), records), bool)
    draw, place = np.nonzero(np.asarray(taken))
    found[draw, np.asarray(rows)[draw, place]] = True
    return found


def poisson(records=RECORDS):
    sample = poisson_sampler(RATE, records, RECORDS)
    keys = jax.random.split(KEY, DRAWS)
    return inclusions(*jax.vmap(lambda key: sample(key, records))(keys), records)


def with_replacement():
    rows = np.random.default_rng(0).integers(RECORDS, size=(DRAWS, round(RATE * RECORDS)))
    return inclusions(rows, np.ones_like(rows))


def first_so_many(sizes):
    """Of random orders."""
    rows = np.random.default_rng(0).permuted(np.tile(np.arange(RECORDS), (DRAWS, 1)), axis=1)
    return inclusions(rows, np.arange(RECORDS) < np.asarray(sizes)[:, None])


def of_fixed_size():
    return first_so_many(np.full(DRAWS, round(RATE * RECORDS)))


def of_binomial_size():
    """Not a defect: a binomial number of records, and so many of them at random."""
    return first_so_many(np.random.default_rng(1).binomial(RECORDS, RATE, DRAWS))


def is_poisson(included):
    """Marginals, and the spread of sizes, which is binomial if and only if no pair is correlated.

    False alarm below 1e-6.
    """
    taken = included()
    error = math.sqrt(RATE * (1.0 - RATE) / DRAWS)
    assert np.abs(taken.mean(axis=0) - RATE).max() < 6.0 * error
    sizes = taken.sum(axis=1) - RATE * RECORDS
    spread = np.square(sizes).sum() / (RECORDS * RATE * (1.0 - RATE))
    assert 5e-7 < stats.chi2.sf(spread, DRAWS) < 1.0 - 5e-7


@exhibit(poisson, with_replacement, of_fixed_size)
def test_records_come_at_the_rate_that_is_claimed(included):
    """A sampler of another rate, or whose records know of each other, under a Poisson claim."""
    is_poisson(included)


def test_a_binomial_number_of_records_at_random_is_no_defect():
    is_poisson(of_binomial_size)


def filled_up():
    """Empty places hold the last record there is."""
    rows, taken = jax.vmap(lambda key: poisson_sampler(RATE, RECORDS, RECORDS)(key, RECORDS))(
        jax.random.split(KEY, DRAWS)
    )
    return inclusions(np.where(taken, rows, RECORDS), np.ones_like(taken), RECORDS + 1)


@exhibit(partial(poisson, RECORDS + 1), filled_up)
def test_nobody_stands_in_the_empty_places(included):
    """A row past the last that fills all places left: one record more than the sampler numbers."""
    assert not included()[:, RECORDS].any()


def refused(counts):
    with pytest.raises(ValueError, match="counts must be None for batches by record number"):
        oracle(OrderedBatches.of(2, 6), np.eye(3)[:, :1], jnp.asarray(counts))
    return np.zeros((3, 2))


def by_number(counts):
    """Records with multiplicities, numbered group by group."""
    return np.repeat(np.arange(3), counts).reshape(3, 2)


@exhibit(refused, by_number)
def test_a_record_that_is_replaced_moves_no_other(batches):
    """Numbers of records with multiplicities: one replaced by another touches one batch, or all is
    refused.
    """
    one, two = batches([2, 2, 2]), batches([1, 2, 3])
    assert (one != two).any(axis=1).sum() <= 1


# --- what a run looks at --------------------------------------------------------------------------


def drawn_again(data, point, drawn):
    """Noise is drawn anew where the solver did not get there."""
    found = noisy_step(data, point, drawn)
    missed = bool((data @ found).max() > 0.01)
    return noisy_step(data, point, 2.0 * drawn) if missed else found


def refusing(data, point, drawn):
    """Data of a kind raise, others do not."""
    if data.min() < 0.0:
        raise ValueError("records must be positive")
    return noisy_step(data, point, drawn)


@exhibit(
    descent(noisy_step),
    descent(drawn_again),
    descent(noisy_step, steps=lambda data: 3 + int(data.max() > 0.5)),
    descent(refusing),
)
def test_what_a_run_does_next_is_told_by_its_answers(run):
    """Noise drawn again, further steps, or failure, as the data have it: replayed on a neighbour
    with the same answers, a run makes the same releases.
    """
    assert replayed(run) == ()


def searching(data, point, drawn):
    """Goes as far as is good along the direction without noise."""
    answer = noisy_step(data, 0.0 * point, drawn)
    return point + jnp.where(data.mean(axis=0) @ answer > 0.0, 1.0, 0.5) * answer


def within_the_data(data, point):
    """A domain read off the records."""
    return jnp.clip(point, data.min(), data.max())


def better_of_two(data, point):
    """Two points and the score of each, exact."""
    return jnp.where((data @ point).sum() > 0.0, point, -point)


def rescaled(data, point, drawn):
    """Noise in units of the data."""
    return noisy_step(data, point, (2.0 + data.sum()) * drawn)


@exhibit(
    descent(noisy_step),
    descent(searching),
    descent(noisy_step, output=within_the_data),
    descent(noisy_step, output=better_of_two),
    descent(rescaled),
)
def test_what_a_run_releases_is_made_of_its_answers(run):
    """A step size, a domain, a scale or the best of two points that look past the noise: replayed
    on a neighbour with the same answers, all is the same in every bit.
    """
    assert replayed(run) == ()


# --- losses ---------------------------------------------------------------------------------------

X, Y = np.array([1.0, 0.5, -0.25, 1.0]), np.array([1.0, -1.0, 1.0, 1.0])


def of_mean_losses(copies):
    n = 4 * copies
    facts = ProblemClass(n=n, dim=1, lipschitz=1.0, radius=10.0, smoothness=0.25)
    query = RegularisedMinimiser.of(facts, REPLACE, regularisation=0.1, relative_error=1e-6)
    data = jnp.asarray(np.tile(X, copies)[:, None]), jnp.asarray(np.tile(Y, copies))
    risk = EmpiricalRisk(GeneralisedLinear(Logistic()), data, None, WholeSpace())
    return float(query.minimiser_of(risk)(jnp.zeros(1))[0])


def of_summed_losses(copies):
    def slope(w):
        return copies * float(-(X * Y) @ special.expit(-X * Y * w)) + 0.1 * w

    return optimize.brentq(slope, -100.0, 100.0)


@exhibit(of_mean_losses, of_summed_losses)
def test_losses_are_averaged(minimiser):
    """Losses that a library sums where they were averaged, or averages: all records twice change
    nothing.
    """
    assert minimiser(2) == pytest.approx(minimiser(1), abs=1e-5)
