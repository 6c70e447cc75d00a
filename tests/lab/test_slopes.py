"""Tests of slopes by equivalence, with control runs and twins, on sweeps with known truth."""

import dataclasses
import math
import re

import pytest
from builders import most_allowed

from privopt.lab.evaluation.cells import cells_along, worst
from privopt.lab.evaluation.estimates import Estimate
from privopt.lab.evaluation.slopes import MIN_POWER, classify, evaluate_controls, slope_verdict
from privopt.lab.evaluation.sweep import MARGIN, margin_of
from privopt.lab.evaluation.verdict import Outcome, tally
from privopt.lab.evaluation.verdicts import ALPHA, theorem_verdicts
from privopt.lab.runner.cells import Trial

OFF, BENT, SECOND = Trial.NOISE_OFF, Trial.NOISE_BENT, Trial.SECOND_KEY
OTHER = {"replicates": 20}


@pytest.fixture
def judged(cells_of):
    """Return ``judged(off={}, bent={}, second=None, **truth) -> Verdict``; ``None`` omits one.

    The axis is n. By default there is no risk without noise, and bent noise has a different
    exponent.
    """

    def judge(off=(), bent=(), second=None, refused=(), alpha=ALPHA, **truth):
        cells = cells_of(**truth)
        usual = {OFF: {"scale": 1e-8}, BENT: {"true": -0.9}, SECOND: {}}
        for trial, told in ((OFF, off), (BENT, bent), (SECOND, second)):
            if told is not None:
                cells += cells_of(trial, **{**truth, **OTHER, **usual[trial], **dict(told)})
        return slope_verdict(cells, "n", alpha, refused)

    return judge


def said(verdict):
    return [(each.name, each.outcome) for each in verdict.controls]


@pytest.mark.parametrize(
    ("lower", "upper", "where"),
    [
        (-1.05, -0.95, "within"),
        (-1.02, -1.01, "within"),
        (-1.0, -1.0, "within"),
        (-1.051, -0.99, "across"),
        (-1.01, -0.949, "across"),
        (-1.2, -0.8, "across"),
        (-1.2, -1.04, "across"),
        (-1.2, -1.051, "below"),
        (-0.949, -0.9, "above"),
    ],
)
def test_the_interval_must_lie_within_the_margin(lower, upper, where):
    assert classify(Estimate((lower + upper) / 2, lower, upper), -1.0) == where


def test_the_margin_is_at_most_a_quarter_of_a_small_exponent(judged):
    assert [margin_of(target) for target in (-1.0, 0.2, 0.095, 0.0)] == [0.05, 0.05, 0.02375, 0.05]
    small = {"target": 0.095, "bound": 0.095, "replicates": 400, "spread": 0.05}
    bent = {"true": 0.195}
    assert judged(true=0.095, bent=bent, **small).outcome is Outcome.HOLDS
    far = judged(true=0.13, bent=bent, **small)  # a third off, and within 0.05
    assert (far.outcome, far.margin) == (Outcome.REFUTED, 0.02375)


def test_the_right_exponent_holds_with_everything_told(judged):
    verdict = judged(second={})
    assert verdict.outcome is Outcome.HOLDS
    assert verdict.lower <= verdict.estimate <= verdict.upper
    assert (verdict.target, verdict.margin, verdict.axis) == (-1.0, MARGIN, "n")
    assert verdict.power > 0.95
    assert verdict.wrong[1] <= verdict.wrong[0] < ALPHA
    assert said(verdict) == [("noise off", "differs"), ("noise bent", "differs")]
    assert verdict.second.outcome == "agrees"
    assert verdict.bound_slope == pytest.approx(-1.0, abs=1e-12)
    assert 1.0 < verdict.drift < 1.1
    assert verdict.regime == "in 10 of 10 cells"
    assert verdict.detail == "5 values, n 500 to 8000"
    assert (verdict.untuned, verdict.at_theory) == (False, None)


def test_a_risk_that_falls_too_slowly_is_refuted_by_enough_replicates(judged):
    verdict = judged(true=-0.88, replicates=400)
    assert verdict.outcome is Outcome.REFUTED
    assert "above -1 ± 0.05" in verdict.detail


@pytest.mark.parametrize(("target", "true"), [(-1.0, -1.12), (0.5, 0.38)])
def test_a_risk_that_is_steeper_than_its_bound_refutes_no_theorem(judged, target, true):
    verdict = judged(true=true, target=target, bound=target, replicates=400)
    assert verdict.outcome is Outcome.NOT_TIGHT
    assert f"steeper than the bound, interval below {target:g} ± 0.05" in verdict.detail


def test_a_slope_that_could_hardly_pass_has_too_few_runs_with_the_number_needed(judged):
    assert "9 replicates, 10 needed" in judged(replicates=9).detail
    few = judged(replicates=20, spread=0.3, strengths=(1.0,))
    assert few.outcome is Outcome.TOO_FEW
    assert few.power < MIN_POWER
    needed = int(re.search(r"with 20 runs, about (\d+) needed", few.detail)[1])
    enough, half = (
        judged(replicates=runs, spread=0.3, strengths=(1.0,)) for runs in (needed, needed // 2)
    )
    assert enough.power > MIN_POWER - 0.1
    assert half.power < MIN_POWER
    assert half.outcome is Outcome.TOO_FEW


def test_a_slope_that_passes_by_chance_has_too_few_runs_too(judged):
    """Of 40 slopes with little power some have their interval within the margin; none holds."""
    found = [judged(replicates=60, spread=0.3, strengths=(1.0,), seed=seed) for seed in range(40)]
    low = [v for v in found if v.power < MIN_POWER]
    assert any(classify(Estimate(v.estimate, v.lower, v.upper), -1.0) == "within" for v in low)
    assert {v.outcome for v in low} == {Outcome.TOO_FEW}


def test_a_wrong_exponent_is_refuted_by_few_runs_too(judged):
    """An interval outside the margin needs no power."""
    verdict = judged(true=-0.5, replicates=20, spread=0.3)
    assert (verdict.outcome, verdict.power < MIN_POWER) == (Outcome.REFUTED, True)
    steep = judged(true=-1.5, replicates=20, spread=0.3)
    assert (steep.outcome, steep.power < MIN_POWER) == (Outcome.NOT_TIGHT, True)


@pytest.mark.parametrize(
    ("truth", "why"),
    [
        ({"values": (500, 1000, 2000)}, "3 values of n, 4 needed"),
        ({"gap": 1e-4}, "certified gap too large"),
        ({"gap": math.nan}, "certified gap too large"),
        ({"scale": 0.0}, "mean not positive"),
        ({"mu": lambda n: n / 1000}, "epsilon/mu changes"),
        ({"exponents": lambda n: {"n": -1.0} if n < 8000 else {}}, "no exponent in n, n=8000"),
        (
            {"exponents": lambda n: {"n": -1.0 - (n > 3000)}, "upper": math.inf},
            "exponent changes along n, and there is no bound",
        ),
    ],
)
def test_what_keeps_an_exponent_from_being_read(judged, truth, why):
    verdict = judged(**truth)
    assert verdict.outcome is Outcome.UNDECIDED
    assert why in verdict.detail
    assert math.isnan(verdict.estimate)
    assert verdict.controls == ()


def test_exponents_that_are_local_are_compared_by_their_mean(judged):
    """Local exponents are those of a logarithm."""
    local = {500: -1.04, 1000: -1.0, 2000: -1.0, 4000: -1.0, 8000: -0.996}
    verdict = judged(exponents=lambda n: {"n": local[n]}, true=-1.0072, bound=-1.0072)
    assert verdict.target == -1.007  # of -1.0072: exponents have three digits
    assert (verdict.outcome, verdict.of_ratio) == (Outcome.HOLDS, False)


def crossover(n):
    """Return a bound with exponent -2 below n = 2000 and -1 above."""
    return 0.02 * (n / 2000.0) ** (-2.0 if n < 2000 else -1.0)


@pytest.mark.parametrize(
    ("tilt", "outcome"), [(0.0, "holds"), (0.1, "refuted"), (-0.1, "not tight here")]
)
def test_where_the_exponent_changes_the_ratio_to_the_bound_is_compared_with_0(
    judged, tilt, outcome
):
    """The mean is 0.4 of a bound without one exponent, times ``(n/2000)^tilt``."""

    def share(n):
        return 0.4 * crossover(n) * (n / 2000.0) ** tilt

    verdict = judged(
        exponents=lambda n: {"n": -2.0 if n < 2000 else -1.0},
        upper=crossover,
        in_regime=lambda n: n >= 2000,
        scale=share,
        true=0.0,
        spread=0.02,
        off={"scale": 0.0},
        bent={"true": 0.1},
        second={},
    )
    assert (verdict.outcome, verdict.of_ratio) == (outcome, True)
    assert (verdict.target, verdict.margin) == (0.0, MARGIN)
    assert verdict.estimate == pytest.approx(tilt, abs=0.02)
    assert verdict.controls[1].value == pytest.approx(tilt + 0.1, abs=0.02)
    assert verdict.second.value == pytest.approx(tilt, abs=0.02)
    assert "where the bound has exponents -2 to -1" in verdict.detail
    assert "slope of mean/bound in n: " in str(verdict)


def test_the_margin_of_a_ratio_is_that_of_the_smallest_exponent(judged):
    verdict = judged(exponents=lambda n: {"n": -0.1 if n < 2000 else -0.2}, upper=lambda n: 0.1)
    assert (verdict.of_ratio, verdict.margin) == (True, 0.025)


def test_a_bound_of_another_slope_leaves_the_exponent_undecided(judged):
    verdict = judged(bound=-0.97)
    assert verdict.outcome is Outcome.UNDECIDED
    assert "the bound's own slope is -0.970" in verdict.detail
    assert verdict.bound_slope == pytest.approx(-0.97, abs=1e-12)
    assert judged(bound=-0.985).outcome is Outcome.HOLDS


def test_a_wrong_exponent_that_the_bound_shares_is_no_refutation(judged):
    # As where steps leave the regime: measured and bound agree, and neither has the exponent.
    assert judged(true=-0.5, bound=-0.5).outcome is Outcome.UNDECIDED


def test_without_a_finite_bound_nothing_owns_the_exponent(judged):
    verdict = judged(upper=math.inf)
    assert verdict.outcome is Outcome.UNDECIDED
    assert math.isnan(verdict.bound_slope)
    assert math.isnan(verdict.drift)


def test_a_cell_out_of_the_regime_leaves_the_exponent_undecided(judged):
    verdict = judged(in_regime=lambda n: n > 500)
    assert verdict.outcome is Outcome.UNDECIDED
    assert "regime, n=500" in verdict.detail
    assert verdict.regime == "in 8 of 10 cells"


def test_a_drift_leaves_the_exponent_undecided(judged):
    # A hump in the middle moves no slope.
    upper = {500: 0.08, 1000: 0.04, 2000: 0.017, 4000: 0.01, 8000: 0.005}
    verdict = judged(upper=upper.get, spread=0.02)
    assert verdict.bound_slope == pytest.approx(-1.0)
    assert verdict.drift == pytest.approx(0.02 / 0.017, rel=0.03)
    assert verdict.outcome is Outcome.UNDECIDED
    assert "drifts by a factor 1.1" in verdict.detail


def test_a_wrong_exponent_is_refuted_although_it_drifts_from_its_bound(judged):
    verdict = judged(true=-0.5, replicates=100)
    assert verdict.drift > 3.0
    assert verdict.outcome is Outcome.REFUTED


@pytest.mark.parametrize("control", ["off", "bent"])
def test_a_slope_that_survives_a_control_is_inherited(judged, control):
    verdict = judged(spread=0.02, **{control: {"true": -1.01, "scale": 0.004}})
    assert verdict.outcome is Outcome.INHERITED
    assert re.search(
        rf"noise {control}: -0\.0\d\d \[.*\] from the measured exponent", verdict.detail
    )
    assert sorted(outcome for _, outcome in said(verdict)) == ["differs", "survives"]


def test_a_wrong_exponent_is_not_inherited(judged):
    assert judged(true=-0.5, bent={"true": -0.5}, replicates=100).outcome is Outcome.REFUTED


def test_a_control_that_may_have_the_exponent_is_undecided(judged):
    verdict = judged(bent={"true": -1.0, "spread": 0.6})
    assert said(verdict)[1] == ("noise bent", "undecided")
    assert verdict.outcome is Outcome.UNDECIDED
    assert "noise bent: " in verdict.detail


def test_a_control_is_told_apart_from_the_measured_exponent_not_from_the_theorems(judged):
    # As of DP-SVRG: 0.065 from the theorem's exponent, and 0.035 from the measured one.
    verdict = judged(true=-1.03, off={"true": -1.065, "scale": 0.004}, spread=0.01, replicates=100)
    assert verdict.controls[0].upper < -1.0
    assert (verdict.controls[0].outcome, verdict.outcome) == ("survives", Outcome.INHERITED)


def test_a_control_shares_the_noise_of_the_measured_runs_and_is_compared_pair_by_pair(cells_of):
    # By itself its exponent is known to 0.3; beside the measured runs it is off by 0.1 exactly.
    one = cells_of(spread=0.6, strengths=(1.0,), replicates=20)
    both = one + [
        dataclasses.replace(c, trial=BENT, values=c.values * (c.setting["n"] / 2000.0) ** 0.1)
        for c in one
    ]
    (_, bent) = evaluate_controls(both, "n", ALPHA)
    assert bent.upper - bent.lower > 0.3
    assert (bent.outcome, bent.detail) == (
        "differs",
        "+0.100 [+0.100, +0.100] from the measured exponent",
    )


def worst_pair(cells_of, off):
    """Return measured cells with means 1 and 0.9 times the law, and ``off(strength)`` cells."""
    one = {"strengths": (1.0,), "spread": 0.02}
    cells = cells_of(strengths=(1.0, 0.9), spread=0.02) + cells_of(
        BENT, strengths=(1.0, 0.9), spread=0.02, true=-0.9, **OTHER
    )
    for strength in (1.0, 2.0):
        share = cells_of(OFF, **one, **OTHER, **off(strength))
        cells += [dataclasses.replace(cell, strength=strength) for cell in share]
    return cells


def test_noise_off_is_judged_at_the_strength_that_is_largest_when_measured(cells_of):
    """Strength 1 is largest with noise. Another one may be largest without it."""
    law, flat = {"scale": 0.005}, {"scale": 0.5, "true": 0.0}
    inherited = worst_pair(cells_of, lambda strength: law if strength == 1.0 else flat)
    assert slope_verdict(inherited, "n", ALPHA).outcome is Outcome.INHERITED
    noisy = worst_pair(cells_of, lambda strength: flat if strength == 1.0 else law)
    assert slope_verdict(noisy, "n", ALPHA).outcome is Outcome.HOLDS
    silent = worst_pair(cells_of, lambda strength: law if strength == 2.0 else {"scale": 0.0})
    assert slope_verdict(silent, "n", ALPHA).outcome is Outcome.HOLDS


def test_noise_off_is_judged_at_one_strength_if_two_are_about_equal(cells_of):
    """The largest mean changes between the strengths by chance; shares without noise differ."""
    law = {1.0: {"scale": 0.006}, 2.0: {"scale": 0.002}}
    for seed in range(10):
        cells = cells_of(strengths=(1.0, 1.0), spread=0.05, seed=seed)
        for strength, share in law.items():
            one = cells_of(OFF, strengths=(1.0,), spread=0.0, **OTHER, **share)
            cells += [dataclasses.replace(cell, strength=strength) for cell in one]
        off, _ = evaluate_controls(cells, "n", ALPHA)
        assert off.value == pytest.approx(-1.0, abs=1e-9)


def test_noise_off_with_no_risk_at_some_value_has_no_exponent(judged):
    def some(n):
        return 0.002 if n < 4000 else 0.0

    verdict = judged(off={"scale": some})
    assert said(verdict)[0] == ("noise off", "differs")
    assert "no risk remains at n=4000" in verdict.controls[0].detail
    assert judged(off={"scale": 0.002, "spread": 0.02}).outcome is Outcome.INHERITED


def test_no_risk_without_noise_tells_apart(judged):
    zero, below_gap = judged(off={"scale": 0.0}), judged(off={"scale": 5e-4, "gap": 4e-3})
    slight, some = judged(off={"scale": 5e-5}), judged(off={"scale": 2e-3, "spread": 0.05})
    for verdict in (zero, below_gap, slight):
        assert verdict.outcome is Outcome.HOLDS
        assert "without noise at most 1% of the risk" in verdict.controls[0].detail
        assert math.isnan(verdict.controls[0].value)
    assert some.outcome is Outcome.INHERITED


def test_no_risk_without_noise_must_be_so_at_every_value(judged):
    shares = {"values": (500, 1000, 2000, 4000, 8000), "true": 0.0, "scale": 5e-5}
    verdict = judged(off=shares)  # flat: at n = 8000 it is 2% of what is measured
    assert said(verdict)[0] == ("noise off", "differs")
    assert verdict.controls[0].value == pytest.approx(0.0, abs=0.1)
    verdict = judged(off={**shares, "scale": 0.0, "gap": lambda n: 1e-4 if n > 4000 else 0.0})
    assert said(verdict)[0] == ("noise off", "differs")


def test_a_refused_control_is_told_with_its_reason_and_the_other_decides(judged):
    def refusal(trial, axis="n"):
        return {"trial": trial, "axes": axis, "refused": "factor must be > 0"}

    off = judged(off=None, refused=[refusal(OFF), refusal(BENT, "dim")])
    assert off.outcome is Outcome.HOLDS
    assert said(off) == [("noise off", "none"), ("noise bent", "differs")]
    assert off.controls[0].detail == "refused: factor must be > 0"
    both = judged(off=None, bent=None, refused=[refusal(OFF), refusal(BENT)])
    assert both.outcome is Outcome.UNDECIDED
    assert "no control, refused: factor must be > 0" in both.detail


def test_without_noise_there_is_nothing_to_control(judged):
    plain = judged(off=None, bent=None, private=False)
    assert plain.outcome is Outcome.HOLDS
    assert [each.detail for each in plain.controls] == ["the method adds no noise"] * 2
    assert judged(off=None, bent=None).outcome is Outcome.UNDECIDED


def test_a_second_key_that_disagrees_leaves_the_exponent_undecided(judged):
    verdict = judged(second={"true": -0.9})
    assert verdict.outcome is Outcome.UNDECIDED
    assert verdict.second.outcome == "disagrees"
    assert "a second root key disagrees, +0." in verdict.detail
    assert judged(second={"scale": math.nan}).second.outcome == "disagrees"
    assert judged(second=None).second is None


def test_a_second_key_hardly_ever_disagrees(judged):
    # Of 40 at alpha = 0.1, each with that probability: passed with 1 - 1e-6.
    found = [
        judged(second={}, off=None, bent=None, seed=seed, alpha=0.1).second.outcome
        for seed in range(40)
    ]
    assert found.count("disagrees") <= most_allowed(40, 0.1)


BEST = {"chosen": {"steps": 64}, "at_edge": [], "candidates": 9}


def both_methods(cells_of, **truth):
    """Return a method with the theorem's values, which inherits its slope, and a grid search."""
    truth = {"private": True, **truth}
    off = cells_of(OFF, scale=0.004, spread=0.0, **OTHER)
    theory = cells_of() + off + cells_of(BENT, **OTHER)
    best = {"method": "dp_gd_best", "searched": BEST, "seed": 1, **truth}
    none = cells_of(OFF, **{**best, **OTHER, "scale": 1e-8})
    bent = cells_of(BENT, **{**best, **OTHER, "true": -0.9})
    return theory + cells_of(**best) + none + bent


def test_the_slope_at_theorys_numbers_stands_in_the_row_of_its_untuned_twin(cells_of):
    found = theorem_verdicts(both_methods(cells_of), ("bound", "slope"))
    assert [(v.method, v.check) for v in found] == [("dp_gd", "bound"), ("dp_gd_best", "slope")]
    slope = found[1]
    assert slope.untuned
    assert slope.outcome is Outcome.HOLDS
    assert slope.at_theory.method == "dp_gd"
    assert slope.at_theory.outcome is Outcome.INHERITED
    assert slope.at_theory.at_theory is None
    assert "1 of 1 exponents hold; 1 of 1 bounds hold. 1 exponents were measured twice" in tally(
        found
    )


def test_another_method_is_no_twin(cells_of):
    cells = both_methods(cells_of) + cells_of(method="fixed")
    found = {v.method: v for v in theorem_verdicts(cells, ("slope",))}
    assert set(found) == {"dp_gd_best", "fixed"}
    assert found["dp_gd_best"].at_theory.method == "dp_gd"
    alone = [cell for cell in cells if cell.method == "dp_gd_best"]
    assert theorem_verdicts(alone, ("slope",))[0].at_theory is None


def test_a_best_candidate_at_the_edge_of_the_grid_is_undecided(judged):
    edge = {**BEST, "at_edge": ["steps"]}
    verdict = judged(searched=lambda n: edge if n == 500 else BEST, off=None, bent=None)
    assert verdict.outcome is Outcome.UNDECIDED
    assert "best steps at an edge of the grid, n=500" in verdict.detail
    assert verdict.untuned


def test_trials_are_never_mixed(cells_of):
    mixed = cells_of() + cells_of(SECOND)
    for read in (lambda: cells_along(mixed, "n"), lambda: worst(mixed)):
        with pytest.raises(ValueError, match="one trial, got measured, second key"):
            read()


def test_intervals_are_simultaneous_over_the_slopes_of_an_experiment(cells_of):
    one = cells_of()
    other = [dataclasses.replace(cell, method="other") for cell in cells_of()]
    alone, together = (theorem_verdicts(cells, ("slope",))[0] for cells in (one, one + other))
    assert together.estimate == alone.estimate
    assert together.lower == slope_verdict(one, "n", ALPHA / 2).lower < alone.lower
