"""Uniform stability of noisy descent: coupled runs, a gap that is measured, the bound by terms."""

import dataclasses
import itertools
import math

import numpy as np
import pytest
from builders import onto_ball
from scipy.stats import binom

from privopt.spec import ProblemClass
from privopt.theory import descent_population_rate, descent_population_step_size
from privopt.theory.generalisation import generalisation_gap

SMOOTH = ProblemClass(n=400, dim=9, lipschitz=2.0, radius=3.0, smoothness=0.5)
SHARP = dataclasses.replace(SMOOTH, smoothness=None)


def huber_slope(points, records, width):
    """Return slopes of ``Huber_h(<x, w> - y)``, ``|x| = 1``, one run a row.

    They are 1-Lipschitz and ``1/h``-smooth.
    """
    features, labels = records
    return np.clip((points @ features.T - labels) / width, -1.0, 1.0)


def descend(records, taken, noise, step_size, width):
    """The average point of every run; ``taken`` holds weights, shape ``(steps, runs, n)``."""
    point = np.zeros(noise.shape[1:])
    mean = point.copy()
    for t in range(len(noise)):
        slopes = huber_slope(point, records, width) * taken[t]
        point = onto_ball(point - step_size * (slopes @ records[0] + noise[t]))
        mean += (point - mean) / (t + 2)
    return mean


@pytest.mark.parametrize("width", [0.5, 1e-6])
@pytest.mark.parametrize("sampler", [None, "poisson", "without_replacement"])
def test_coupled_runs_stay_together(width, sampler):
    """A record replaced: the averages are no further apart than the gap over ``L`` allows.

    In the mean over 300 runs, with four standard errors to spare; ``eta H = 1``.
    """
    n, dim, steps, runs = 12, 3, 30, 300
    rng = np.random.default_rng(3)
    features = rng.normal(size=(n, dim))
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    labels = rng.choice([-0.6, 0.6], size=n)
    others = features, np.where(np.arange(n) == 0, -labels, labels)
    if sampler == "poisson":
        taken = rng.random((steps, runs, n)) < 4 / n
    elif sampler == "without_replacement":
        taken = rng.permuted(np.broadcast_to(np.arange(n) < 4, (steps, runs, n)), axis=2)
    else:
        taken = np.ones((steps, runs, n), bool)
    batch_size = None if sampler is None else 4
    weights = taken / (batch_size or n)
    noise = 0.1 * rng.normal(size=(steps, runs, dim))
    step_size = 0.5 if width == 0.5 else 0.05
    here, there = (
        descend(records, weights, noise, step_size, width)
        for records in ((features, labels), others)
    )
    apart = np.linalg.norm(here - there, axis=1)
    smoothness = 1.0 / width if width == 0.5 else None
    facts = ProblemClass(n=n, dim=dim, lipschitz=1.0, radius=1.0, smoothness=smoothness)
    told = {"batch_size": batch_size, "sampler": sampler or "without_replacement"}
    gap = generalisation_gap(facts, steps=steps, step_size=step_size, **told)
    assert apart.mean() + 4 * apart.std() / math.sqrt(runs) < gap
    assert apart.mean() > 0.01 * gap


def test_linear_losses_attain_the_gap():
    """``-<w, x>``, signs ``x``, no noise and steps too short to meet the sphere: an identity.

    The average is ``eta (T/2) m`` with ``m`` the mean record, ``E m^2 = 1/n``.
    """
    facts = ProblemClass(n=50, dim=1, lipschitz=1.0, radius=1.0, smoothness=0.0)
    gap = generalisation_gap(facts, steps=40, step_size=0.01)
    assert gap == pytest.approx(0.01 * 20 / 50)
    batches = generalisation_gap(facts, steps=40, step_size=0.01, batch_size=5)
    assert batches == pytest.approx(2.0 * gap)


@pytest.mark.parametrize(("width", "above"), [(0.5, 1.12), (0.3, 1.16)])
def test_half_of_the_gap_is_not_enough_for_long_runs_on_curved_losses(width, above):
    """One record, a distance from one of 1000 corners, rounded: ``h = (1 - width)/width``.

    Straight towards the corner, which no step passes, and away from all others.
    """
    steps, eta = 1000, (1.0 - width) / 1000
    facts = ProblemClass(n=1, dim=1000, lipschitz=1.0, radius=1.0, smoothness=1.0 / width)
    average = 0.5 * eta * steps
    gap = 0.999 * (math.hypot(1.0, average) - (1.0 - average))
    half = 0.5 * eta * steps
    assert above * half < gap < generalisation_gap(facts, steps=steps, step_size=eta) <= 2.0 * half


def test_no_gap_of_few_records_exceeds_it():
    """Search all data sets of two and three records out of four losses on the line.

    The search is exact.
    """
    rng, worst = np.random.default_rng(2), 0.0
    for _ in range(300):
        n, steps = int(rng.integers(2, 4)), int(rng.integers(1, 12))
        centres = rng.uniform(-2.0, 2.0, size=4)
        width = float(rng.choice([0.1, 1.0, 10.0]))
        eta = float(width * rng.uniform(0.01, 1.0))
        data = np.array(list(itertools.product(range(4), repeat=n)))
        points, total = np.zeros(len(data)), np.zeros(len(data))
        for _ in range(steps):
            slopes = np.clip((points[:, None] - centres[data]) / width, -1.0, 1.0)
            points = np.clip(points - eta * slopes.mean(axis=1), -1.0, 1.0)
            total += points
        mean = total / (steps + 1)
        far = np.abs(mean[:, None] - centres)
        bend = np.minimum(far, width)
        losses = bend**2 / (2 * width) + far - bend
        fitted = np.take_along_axis(losses, data, axis=1).mean(axis=1)
        gap = float(np.mean(losses.mean(axis=1) - fitted))
        facts = ProblemClass(n=n, dim=1, lipschitz=1.0, radius=1.0, smoothness=1.0 / width)
        worst = max(worst, gap / generalisation_gap(facts, steps=steps, step_size=eta))
    assert 0.6 < worst <= 1.0


def test_poisson_batches_that_are_too_full():
    """A batch above its mean expands at steps of ``2/H``. Shorter steps allow fuller batches."""
    there = {"steps": 10, "batch_size": 20.0, "sampler": "poisson"}
    for step_size, most in ((2.0, 40), (4.0, 20)):
        chance = 10 * binom.sf(most, 400, 20 / 400)
        plain = step_size * 4.0 * 10 / 400
        rough = step_size * 4.0 * (4 / 3 * math.sqrt(10 * (1 + 0.95 / 20)) + 2 * 10 / 400)
        expected = min(plain + 12.0 * chance, rough)
        assert generalisation_gap(SMOOTH, step_size=step_size, **there) == pytest.approx(expected)
    fixed = generalisation_gap(SMOOTH, steps=10, step_size=2.0, batch_size=20.0)
    assert fixed == pytest.approx(2.0 * 4.0 * 10 / 400)
    with pytest.raises(ValueError, match="sampler must be without_replacement or poisson"):
        generalisation_gap(SMOOTH, steps=10, step_size=2.0, batch_size=20.0, sampler="shuffled")


@pytest.mark.parametrize("facts", [SMOOTH, SHARP, dataclasses.replace(SMOOTH, smoothness=64.0)])
@pytest.mark.parametrize("batch", [{}, {"batch_size": 40, "sampler": "poisson"}])
@pytest.mark.parametrize("noise_std", [0.0, 3.0])
def test_step_size_is_the_minimiser_and_the_rate_its_value(facts, batch, noise_std):
    there = {"steps": 60, **batch}
    best = descent_population_step_size(facts, noise_std=noise_std, **there)
    second = 1.0 + (0.9 / 40 if batch else 0.0)

    def bound(step_size):
        square = 4.0 * second + 9 * noise_std**2
        descent = 9.0 / (2 * step_size * 61) + 0.5 * step_size * square
        return descent + generalisation_gap(facts, step_size=step_size, **there)

    sizes = best * np.geomspace(0.5, 1.0 if facts.smoothness == 64.0 else 2.0, 41)
    assert bound(best) <= 1.01 * min(map(bound, sizes))
    if facts.smoothness == 64.0:
        assert best == (1 / 64 if batch else 2 / 64)
    rate = descent_population_rate(facts, noise_std=noise_std, **there)
    assert rate.upper == pytest.approx(bound(best), rel=1e-9)


def test_terms_of_smooth_losses():
    """``L R sqrt(1/(T + 1) + T/(n (T + 1)) + 4 d T/((T + 1) (n mu)^2))``, linear, all records."""
    noise_std = 2 * 2.0 * math.sqrt(1000) / (400 * 0.1)
    flat = dataclasses.replace(SMOOTH, smoothness=0.0)
    rate = descent_population_rate(flat, steps=1000, noise_std=noise_std)
    inside = 1 / 1001 + 1000 / 1001 / 400 + 4 * 9 * 1000 / 1001 / 40.0**2
    assert rate.upper == pytest.approx(6 * math.sqrt(inside), rel=1e-12)
    assert [term.name for term in rate.terms] == ["noise", "generalisation", "gradients"]
