"""What runs measure is what the law of their cell says, and not a few per cent of something else.

A mean is within five standard errors of its law, but for a chance of 6e-7; a law that is wrong by
``off`` is not.
"""

from __future__ import annotations

import dataclasses
import math
from typing import NamedTuple

import jax
import numpy as np
import optax
import pytest

import privopt
from privopt.convex import RandomIterate
from privopt.lab.make.laws import LAWS, law_of
from privopt.problems import FAMILIES


class Cell(NamedTuple):
    """One cell, small and noisy, in which nothing but its law is known."""

    algorithm: str
    family: str
    n: int
    dim: int
    choices: dict[str, object] = {}  # noqa: RUF012
    strength: float = 1.0
    delta: float = 1e-5
    off: float = 0.02

    @property
    def problem(self):
        family = FAMILIES[self.family]
        return family.build(n=self.n, dim=self.dim, noise_ratio=0.1, strength=self.strength)

    def plan(self, **choices):
        budget = privopt.Budget(epsilon=2.0, delta=self.delta, relation="replace_one")
        chosen = {**self.choices, **choices}
        return privopt.ALGORITHMS[self.algorithm].plan(self.problem.problem_class, budget, **chosen)

    def law(self, plan):
        return law_of(plan, self.family, self.strength)


CELLS = [
    Cell("output_perturbation", "distance", 60, 30),
    Cell("output_perturbation", "distance", 500, 30, delta=0.0),
    Cell("output_perturbation", "regularised_distance", 200, 30, strength=0.5),
    Cell("output_perturbation", "squared_distance", 500, 60, {"stationary": True}),
    Cell("exponential_mechanism", "distance", 40, 3, delta=0.0, off=0.08),
    Cell("exponential_mechanism", "distance", 40, 3, {"regularisation": 0.5}, off=0.08),
    Cell("projection_mechanism", "sparse_silence", 50, 40, {"body": "none"}),
    Cell("projection_mechanism", "sparse_silence", 50, 90, {"body": "none"}, delta=0.0),
    *(
        Cell("dp_gd", "squared_distance", 2000, 60, {"steps": 3, "step_size": 0.3, "output": each})
        for each in ("last", "average", "average_after_step", "weighted_average")
    ),
    Cell("dp_gd", "squared_distance", 2000, 60, {"steps": 8}),
]
DESCENT = CELLS[-1]
KEYS = jax.random.split(jax.random.key(0), 6000)


def test_every_law_has_a_cell():
    assert {(cell.algorithm, cell.family) for cell in CELLS} == set(LAWS)


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: f"{cell.algorithm}-{cell.family}")
def test_runs_follow_their_law(cell):
    """A control of half the noise too, whose law is another; and without noise nothing is lost."""
    plan, where = cell.plan(), cell.problem
    plans = [plan, plan.with_noise(0.5)]
    plans += [plan.with_noise(0.0)] if plan.algorithm.noise != "law" else []
    released = privopt.run_many(plans, where, KEYS, common_random_numbers=True).released
    off = np.array([1.0, 1.0 - cell.off, 1.0 + cell.off])
    for planned, found in zip(plans[:2], where.excess_risk(released), strict=False):
        error = found.std(ddof=1) / math.sqrt(found.size)
        told = np.abs(found.mean() - off * cell.law(planned)) <= 5.0 * error
        assert told.tolist() == [True, False, False]
    for silent, points in zip(plans[2:], released[2:], strict=True):
        assert cell.law(silent) == 0.0
        assert not np.any(points)


def test_what_is_closed_for_no_cell():
    plan = DESCENT.plan()
    assert law_of(plan, "distance", 1.0) is None
    assert law_of(plan, "linear", 1.0) is None
    assert law_of(plan, "no such family", 1.0) is None
    for choices in (
        {"update": optax.adam, "step_size": 0.1},
        {"output": RandomIterate()},
        {"clip": 0.5},
    ):
        assert DESCENT.law(DESCENT.plan(**choices)) is None
    louder = plan.with_noise(100.0)
    assert DESCENT.law(louder) is None


def test_the_law_is_that_of_the_plan_not_of_its_name():
    plan = CELLS[0].plan()
    plan = dataclasses.replace(plan, algorithm=dataclasses.replace(plan.algorithm, summary="x"))
    assert CELLS[0].law(plan) == CELLS[0].law(CELLS[0].plan())
    assert CELLS[0].law(CELLS[0].plan(regularisation=0.9)) != CELLS[0].law(plan)
