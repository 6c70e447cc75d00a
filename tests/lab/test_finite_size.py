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
    Cell("dp_gd", "squared_distance", 2000, 60, {"steps": 50}),
    Cell("dp_gd", "squared_distance", 2000, 60, {"steps": 20, "step_size": 0.2, "output": "last"}),
]
DESCENT = CELLS[-2]


def test_every_law_has_a_cell():
    assert {(cell.algorithm, cell.family) for cell in CELLS} == set(LAWS)


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: f"{cell.algorithm}-{cell.family}")
def test_runs_follow_their_law(cell):
    """A control of half the noise too, whose law is another; and without noise nothing is lost."""
    plan, where = cell.plan(), cell.problem
    keys = jax.random.split(jax.random.key(0), 6000)
    off = np.array([1.0, 1.0 - cell.off, 1.0 + cell.off])
    for planned in (plan, plan.with_noise(0.5)):
        found = where.excess_risk(privopt.run_many([planned], where, keys).released[0])
        error = found.std(ddof=1) / math.sqrt(found.size)
        told = np.abs(found.mean() - off * cell.law(planned)) <= 5.0 * error
        assert told.tolist() == [True, False, False]
    if plan.algorithm.noise != "law":
        silent = plan.with_noise(0.0)
        assert cell.law(silent) == 0.0 == privopt.run(silent, where, keys[0]).released.sum()


@pytest.mark.parametrize("output", ["average", "average_after_step", "weighted_average"])
def test_descent_follows_its_law_with_every_output(output):
    cell = DESCENT._replace(choices={"steps": 3, "step_size": 0.3, "output": output})
    plan, where = cell.plan(), cell.problem
    keys = jax.random.split(jax.random.key(1), 6000)
    found = where.excess_risk(privopt.run_many([plan], where, keys).released[0])
    assert abs(found.mean() - cell.law(plan)) <= 5.0 * found.std(ddof=1) / math.sqrt(found.size)


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
    plan = dataclasses.replace(plan, budget=dataclasses.replace(plan.budget, epsilon=99.0))
    assert CELLS[0].law(plan) == CELLS[0].law(CELLS[0].plan())
    assert CELLS[0].law(CELLS[0].plan(regularisation=0.9)) != CELLS[0].law(plan)
