"""Defects of data access: a run depends on the data besides its noisy answers."""

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
    """Return the oracle of linear losses ``-<w, x>``."""
    query = ClippedGradient.of(ProblemClass(n=16, dim=1, lipschitz=1.0, radius=1.0))
    mechanism = PrivateGradient(query=query, batches=batches, scale=0.5, steps=3)
    data = jnp.asarray(rows), jnp.ones(len(rows))
    risk = EmpiricalRisk(GeneralisedLinear(Linear()), data, counts, WholeSpace())
    return mechanism.oracle(risk, KEY)


# --- divisors -------------------------------------------------------------------------------------


def mean_of(rows):
    return oracle(PoissonBatches(0.25, 4.0, 8, 16), rows).mean


def public_mean(rows, members):
    """Return the mean of a batch with expected size 4 of 16 records and ``members`` records."""
    batch = np.arange(8), np.arange(8) < members
    mean = jax.jit(lambda rows, batch: mean_of(rows)(jnp.zeros(1), batch))
    return float(-mean(rows, batch)[0])


def of_those_present(rows, members):
    return float(rows[:members].sum()) / max(1, members)


def of_the_length(rows, members):
    return float(rows[:members].sum()) / math.floor(0.25 * len(rows))


@exhibit(public_mean, of_those_present, of_the_length)
def test_divisors_are_public(mean):
    """Division by the realised batch or data size; checked by adding a record."""
    for size, members in ((11, 6), (12, 0)):
        before = mean(np.ones((size, 1)), members)
        for more in (0, 1):
            moved = mean(np.ones((size + 1, 1)), members + more) - before
            assert abs(moved) <= 0.25 * (1.0 + 1e-9)


@exhibit(public_mean, lambda rows, members: rows[:members].mean() if members else math.nan)
def test_an_empty_batch_is_no_event(mean):
    """Error or NaN for an empty batch; checked for the answer 0."""
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
    """Return the first records of random orders."""
    rows = np.random.default_rng(0).permuted(np.tile(np.arange(RECORDS), (DRAWS, 1)), axis=1)
    return inclusions(rows, np.arange(RECORDS) < np.asarray(sizes)[:, None])


def of_fixed_size():
    return first_so_many(np.full(DRAWS, round(RATE * RECORDS)))


def of_binomial_size():
    """Return a binomial number of random records; this sampler is correct."""
    return first_so_many(np.random.default_rng(1).binomial(RECORDS, RATE, DRAWS))


def is_poisson(included):
    """Check marginals and the variance of sizes, which is binomial if no pair is correlated.

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
    """Sampler with another rate, or with dependent records; checked by marginals and sizes."""
    is_poisson(included)


def test_a_binomial_number_of_records_at_random_is_no_defect():
    is_poisson(of_binomial_size)


def filled_up():
    """Return a sampler that pads batches with the last record."""
    rows, taken = jax.vmap(lambda key: poisson_sampler(RATE, RECORDS, RECORDS)(key, RECORDS))(
        jax.random.split(KEY, DRAWS)
    )
    return inclusions(np.where(taken, rows, RECORDS), np.ones_like(taken), RECORDS + 1)


@exhibit(partial(poisson, RECORDS + 1), filled_up)
def test_nobody_stands_in_the_empty_places(included):
    """Padding with a real record; checked by a record after the last one."""
    assert not included()[:, RECORDS].any()


def refused(counts):
    with pytest.raises(ValueError, match="counts must be None for batches by record number"):
        oracle(OrderedBatches.of(2, 6), np.eye(3)[:, :1], jnp.asarray(counts))
    return np.zeros((3, 2))


def by_number(counts):
    """Return batches over records with multiplicities, numbered by group."""
    return np.repeat(np.arange(3), counts).reshape(3, 2)


@exhibit(refused, by_number)
def test_a_record_that_is_replaced_moves_no_other(batches):
    """Changed multiplicities that shift other records; checked by the number of changed batches."""
    one, two = batches([2, 2, 2]), batches([1, 2, 3])
    assert (one != two).any(axis=1).sum() <= 1


# --- what a run looks at --------------------------------------------------------------------------


def drawn_again(data, point, drawn):
    """Return a step that draws new noise if the solver has not converged."""
    found = noisy_step(data, point, drawn)
    missed = bool((data @ found).max() > 0.01)
    return noisy_step(data, point, 2.0 * drawn) if missed else found


def refusing(data, point, drawn):
    """Return a step that raises an error for some data."""
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
    """Redrawn noise, additional steps or errors that depend on the data; checked by replay.

    With the same answers, a run on a neighbour must have the same releases.
    """
    assert replayed(run) == ()


def searching(data, point, drawn):
    """Return a step with a line search along the direction without noise."""
    answer = noisy_step(data, 0.0 * point, drawn)
    return point + jnp.where(data.mean(axis=0) @ answer > 0.0, 1.0, 0.5) * answer


def within_the_data(data, point):
    """Return a point projected onto the domain of the records."""
    return jnp.clip(point, data.min(), data.max())


def better_of_two(data, point):
    """Return the better of two points by their exact scores."""
    return jnp.where((data @ point).sum() > 0.0, point, -point)


def rescaled(data, point, drawn):
    """Return a step with noise in units of the data."""
    return noisy_step(data, point, (2.0 + data.sum()) * drawn)


@exhibit(
    descent(noisy_step),
    descent(searching),
    descent(noisy_step, output=within_the_data),
    descent(noisy_step, output=better_of_two),
    descent(rescaled),
)
def test_what_a_run_releases_is_made_of_its_answers(run):
    """Step size, domain, noise scale or selection that depend on the data; checked by replay.

    With the same answers, a run on a neighbour must agree in every bit.
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
    return float(jax.jit(query.minimiser_of(risk))(jnp.zeros(1))[0])


def of_summed_losses(copies):
    def slope(w):
        return copies * float(-(X * Y) @ special.expit(-X * Y * w)) + 0.1 * w

    return optimize.brentq(slope, -100.0, 100.0)


@exhibit(of_mean_losses, of_summed_losses)
def test_losses_are_averaged(minimiser):
    """Sum of losses instead of their mean, or the reverse; checked by repeating all records."""
    assert minimiser(2) == pytest.approx(minimiser(1), abs=1e-5)
