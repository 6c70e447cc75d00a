"""Laws: what was measured against the exact expectation, a test of code."""

import math

import numpy as np
import pytest
from builders import most_allowed
from scipy import stats

from privopt.lab.judge.means import LAW_RESOLUTION, law_verdict
from privopt.lab.judge.verdict import Outcome
from privopt.lab.judge.verdicts import ALPHA, theorem_verdicts


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
