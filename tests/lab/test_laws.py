"""Tests of laws: measured values against the exact expectation, a test of code."""

from __future__ import annotations

import dataclasses
import math
from typing import NamedTuple

import jax
import numpy as np
import optax
import pytest
from builders import most_allowed
from scipy import stats
from selection import few

import privopt
from privopt.convex import RandomIterate
from privopt.lab.evaluation.verdict import Outcome
from privopt.lab.evaluation.verdicts import ALPHA, LAW_RESOLUTION, law_verdict, theorem_verdicts
from privopt.lab.runner.quantities import LAWS, law_of
from privopt.problems import FAMILIES


def law(n):
    return 0.01 * 2000 / n


@pytest.fixture
def judged(cells_of):
    """``judged(**truth) -> Verdict`` on the law 20/n, ten cells of one strength."""

    def judge(alpha=ALPHA, **truth):
        usual = {"law": law, "strengths": (1.0,), "replicates": 100}
        return law_verdict(cells_of(**{**usual, **truth}), alpha)

    return judge


def test_a_true_law_holds_and_is_called_a_test_of_code(judged):
    verdict = judged()
    assert verdict.outcome is Outcome.HOLDS
    assert (verdict.check, verdict.target) == ("law", 1.0)
    assert verdict.lower <= 1.0 <= verdict.upper
    assert verdict.upper - verdict.lower == pytest.approx(2 * 2.576 * 0.01 / math.sqrt(5), rel=0.2)
    assert "a test of the code, not of a theorem: 5 cells, chi-square p = " in verdict.detail


@pytest.mark.parametrize(("replicates", "spread"), [(12, 0.1), (100, 0.7)])
def test_a_true_law_is_refuted_as_often_as_the_level_says(judged, replicates, spread):
    # Of 300 at alpha = 0.05, each with that probability: passed with 1 - 2e-6. Values skewed as
    # risks are (0.3 and 2.9); without its correction the second case is refuted twice as often.
    trials, alpha = 300, 0.05
    found = [
        judged(alpha, spread=spread, replicates=replicates, seed=seed).outcome
        for seed in range(trials)
    ]
    few, many = stats.binom.ppf(1e-6, trials, alpha), most_allowed(trials, alpha)
    assert few <= found.count("refuted") <= many


def test_a_false_law_is_refuted(judged):
    verdict = judged(law=lambda n: 1.05 * law(n))
    assert verdict.outcome is Outcome.REFUTED
    assert verdict.estimate == pytest.approx(1 / 1.05, abs=0.02)
    # Right on average, wrong in every cell: the ratio alone would not tell.
    turned = {500: 1.08, 1000: 0.96, 2000: 0.96, 4000: 0.96, 8000: 1.04}
    verdict = judged(law=lambda n: law(n) / turned[n])
    assert verdict.lower <= 1.0 <= verdict.upper
    assert verdict.outcome is Outcome.REFUTED


def test_a_law_that_is_not_resolved_is_undecided(judged):
    verdict = judged(spread=0.5)
    assert verdict.outcome is Outcome.UNDECIDED
    assert f"{LAW_RESOLUTION:g} needed" in verdict.detail
    assert judged(gap=1e-3).outcome is Outcome.UNDECIDED
    assert judged(gap=math.nan).outcome is Outcome.UNDECIDED
    assert "9 replicates" in judged(replicates=9).detail


def test_a_certified_gap_excuses_no_more_than_itself(judged):
    short = {"law": lambda n: law(n) + 2e-3, "gap": 2e-3}
    assert judged(**short).outcome is Outcome.UNDECIDED
    assert judged(**{**short, "law": lambda n: law(n) - 2e-3}).outcome is Outcome.REFUTED


def test_values_without_scatter_must_be_the_law(judged):
    assert judged(spread=0.0).outcome is Outcome.HOLDS
    assert judged(spread=0.0, law=lambda n: law(n) * (1 + 1e-6)).outcome is Outcome.REFUTED
    assert judged(scale=math.nan).outcome is Outcome.REFUTED


def test_the_ratio_is_not_drawn_down_by_skewness(judged):
    # Weights by the inverse variance favour cells that happen to be small.
    ratios = [judged(spread=0.7, replicates=20, seed=seed).estimate for seed in range(100)]
    assert np.mean(ratios) == pytest.approx(1.0, abs=5 * np.std(ratios) / 10)


def test_laws_are_asked_where_they_are_known_and_asked_for(cells_of):
    known, unknown = cells_of(law=law, strengths=(1.0,)), cells_of(method="other")
    found = theorem_verdicts(known + unknown, ("law",))
    assert [(each.check, each.method) for each in found] == [("law", "dp_gd")]
    assert theorem_verdicts(known, ("bound",))[0].check == "bound"


class Cell(NamedTuple):
    """A small and noisy cell with a known law."""

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


@pytest.mark.parametrize(
    "cell",
    few(CELLS, [CELLS[i] for i in (1, 10)]),
    ids=lambda cell: f"{cell.algorithm}-{cell.family}",
)
def test_runs_follow_their_law(cell):
    """A run and a control run with half the noise follow their laws; without noise the risk is 0.

    A mean is within five standard errors of its law, except with probability 6e-7. A law that is
    wrong by ``off`` is rejected.
    """
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
        {"clip_norm": 0.5},
    ):
        assert DESCENT.law(DESCENT.plan(**choices)) is None
    louder = plan.with_noise(100.0)
    assert DESCENT.law(louder) is None


def test_the_law_is_that_of_the_plan_not_of_its_name():
    plan = CELLS[0].plan()
    plan = dataclasses.replace(plan, algorithm=dataclasses.replace(plan.algorithm, summary="x"))
    assert CELLS[0].law(plan) == CELLS[0].law(CELLS[0].plan())
    assert CELLS[0].law(CELLS[0].plan(regularisation=0.9)) != CELLS[0].law(plan)
