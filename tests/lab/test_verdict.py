"""Tests of verdicts on tables with known truth; every false-alarm probability is stated."""

import math

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from builders import most_allowed
from selection import choose

from privopt.lab import ResultsError, verdicts
from privopt.lab.evaluation.cells import cell_results, cells_along, worst
from privopt.lab.evaluation.verdict import Outcome, tally
from privopt.lab.evaluation.verdicts import ALPHA, theorem_verdicts
from privopt.lab.runner.cells import Trial
from privopt.lab.runner.store import write_recorded

N_ONLY = {"n": (500, 1000, 2000, 4000, 8000)}
ONE = {"strengths": (1.0,), "profile_of_strength": (1.0,)}


def slopes(table):
    return {verdict.axis: verdict for verdict in verdicts(table) if verdict.check == "slope"}


def bound(table):
    (verdict,) = (verdict for verdict in verdicts(table) if verdict.check == "bound")
    return verdict


def test_a_true_theorem_holds_on_every_axis_and_tells_what_could_have_made_it_fail(synthetic):
    found = verdicts(synthetic(spread=0.1, replicates=200))
    assert [(v.check, v.axis) for v in found] == [
        ("bound", None), ("slope", "n"), ("slope", "dim"), ("slope", "epsilon"),
    ]  # fmt: skip
    for verdict in found:
        assert verdict.outcome is Outcome.HOLDS
        assert verdict.lower <= verdict.estimate <= verdict.upper
    assert [v.target for v in found] == [1.0, -1.0, 0.5, -1.0]
    assert found[0].estimate == pytest.approx(0.5, abs=0.1)
    for verdict in found[1:]:
        assert [(each.name, each.outcome) for each in verdict.controls] == [
            ("noise off", "differs"),
            ("noise bent", "differs"),
        ]
        assert verdict.controls[1].value == pytest.approx(verdict.target + 0.1, abs=0.03)
        assert verdict.second.outcome == "agrees"
        assert verdict.bound_slope == pytest.approx(verdict.target)
        assert verdict.regime == "in 15 of 15 cells"
        assert verdict.power > 0.9


def test_a_slope_that_its_controls_have_too_is_inherited(synthetic):
    told = tally(verdicts(synthetic(spread=0.02, replicates=100, off=0.3)))
    assert told == "0 of 3 exponents hold, 3 inherited; 1 of 1 bounds hold."


def test_a_true_theorem_is_rarely_refuted(synthetic):
    # Each experiment refutes a true theorem with probability at most ALPHA; the count below is
    # passed with probability under 1e-6. Skewed risks, few replicates.
    trials, refuted = choose(60, 30), 0
    for seed in range(trials):
        table = synthetic(**ONE, axes=N_ONLY, replicates=12, spread=0.8, seed=seed)
        refuted += any(v.outcome is Outcome.REFUTED for v in verdicts(table))
    assert refuted <= most_allowed(trials, 2 * ALPHA)


def test_a_hair_below_the_bound_is_rarely_refuted(synthetic):
    trials, outcomes = choose(60, 30), []
    for seed in range(trials):
        table = synthetic(**ONE, axes=N_ONLY, replicates=30, bound=1.0, seed=seed)
        outcomes.append(bound(table).outcome)
    assert outcomes.count(Outcome.REFUTED) <= most_allowed(trials, ALPHA)
    assert outcomes.count(Outcome.HOLDS) <= most_allowed(trials, ALPHA)


def test_a_violated_bound_is_refuted_and_its_worst_cell_named(synthetic, replaced):
    table = synthetic(axes=N_ONLY, bound=2.0)
    table = replaced(table, "upper", lambda row: row["upper"] / (3.0 if row["n"] == 4000 else 1.0))
    verdict = bound(table)
    assert verdict.outcome is Outcome.REFUTED
    assert verdict.lower > 1.0
    assert "n=4000" in verdict.detail
    assert "strength=2" in verdict.detail


def test_one_replicate_is_undecided(synthetic):
    assert bound(synthetic(axes=N_ONLY, replicates=1)).outcome is Outcome.UNDECIDED


def test_a_certified_gap_too_large_is_undecided(synthetic):
    assert bound(synthetic(axes=N_ONLY, gap=1e-2)).outcome is Outcome.UNDECIDED
    assert bound(synthetic(axes=N_ONLY, gap=math.nan)).outcome is Outcome.UNDECIDED


def test_a_bound_above_what_the_public_centre_has_is_vacuous(synthetic, replaced):
    """A bound above the centre's risk in every cell cannot fail; else the count is printed."""
    table = synthetic(axes=N_ONLY, bound=2.0)  # 0.005 to 0.08
    verdict = bound(table)
    assert (verdict.outcome, verdict.below_centre) == (Outcome.HOLDS, "in 15 of 15 cells")
    some = bound(replaced(table, "start_value", lambda row: 0.03))
    assert (some.outcome, some.below_centre) == (Outcome.HOLDS, "in 9 of 15 cells")
    none = replaced(table, "start_value", lambda row: 0.004)
    assert (bound(none).outcome, bound(none).below_centre) == (Outcome.VACUOUS, "in 0 of 15 cells")
    assert tally([bound(none)]) == "0 of 1 bounds could have failed: vacuous."
    above = replaced(none, "value", lambda row: 10.0 * row["value"])
    assert bound(above).outcome is Outcome.REFUTED  # by whatever bound
    # Where the centre is the minimiser it says nothing.
    zero = bound(replaced(table, "start_value", lambda row: 0.0))
    assert (zero.outcome, zero.below_centre) == (Outcome.HOLDS, "")


def test_a_bound_that_is_the_exact_mean_is_attained(synthetic, replaced):
    table = synthetic(**ONE, axes=N_ONLY, bound=1.0, replicates=100)
    assert bound(table).outcome is Outcome.UNDECIDED
    known = replaced(table, "law", lambda row: row["upper"])
    assert bound(known).outcome is Outcome.ATTAINED
    assert "the exact mean is the bound" in bound(known).detail
    assert bound(replaced(table, "law", lambda row: 0.99 * row["upper"])).outcome == "undecided"
    high = replaced(known, "value", lambda row: 1.2 * row["value"])
    assert bound(high).outcome is Outcome.REFUTED


def test_a_slope_from_the_minimiser_is_a_test_of_code(synthetic, replaced):
    table = synthetic(axes=N_ONLY, spread=0.05, replicates=200)
    assert tally(verdicts(table)) == "1 of 1 exponents hold; 1 of 1 bounds hold."
    code = verdicts(replaced(table, "start_value", lambda row: 0.0))
    assert tally(code) == "1 of 1 bounds hold; 1 of 1 tests of code hold."


def test_a_check_without_a_theorem_is_not_applicable_with_the_reason(synthetic, replaced):
    def reasons(table, outcome=Outcome.NOT_APPLICABLE):
        return {v.check: v.detail for v in verdicts(table) if v.outcome is outcome}

    checks = ("bound", "slope", "law")
    table = synthetic(axes=N_ONLY, tight_on=None, bound=math.inf, checks=checks)
    assert tally(verdicts(table)) == "There are no verdicts."
    said = reasons(table)
    assert said == {
        "bound": "no bound is claimed, none: no theorem",
        "slope": "its rate names no family on which it is tight",
        "law": "no law is known of dp_gd on linear",
    }
    other = synthetic(axes=N_ONLY, tight_on="medians", bound=math.inf, checks=checks)
    other = replaced(other, "quantity", lambda row: "population risk")
    said = reasons(other)
    assert said["slope"] == "its rate is tight on medians, not on linear"
    assert said["bound"] == "its bound is one on empirical risk, and population risk is measured"
    refused = replaced(synthetic(axes=N_ONLY), "refused", lambda row: "delta must be positive")
    refused = refused._replace(runs=refused.runs.slice(0, 0))
    assert reasons(refused, Outcome.UNDECIDED) == dict.fromkeys(
        ("bound", "slope"), "every plan is refused: delta must be positive"
    )
    assert [str(v) for v in verdicts(refused)] == [
        f"dp_gd on linear, {what}: undecided (every plan is refused: delta must be positive)"
        for what in ("mean/bound", "slope")
    ]


def test_a_folder_is_read(synthetic, tmp_path):
    write_recorded(tmp_path / "toy", synthetic(axes=N_ONLY))
    assert [v.check for v in verdicts(tmp_path / "toy")] == ["bound", "slope"]
    with pytest.raises(ResultsError, match="holds no tables"):
        verdicts(str(tmp_path))


def test_cells_that_claim_nothing_do_not_hide_those_that_do(synthetic, replaced):
    table = synthetic(axes=N_ONLY, bound=0.5)
    mixed = replaced(table, "upper", lambda row: math.inf if row["n"] > 500 else row["upper"])
    assert bound(mixed).outcome is Outcome.REFUTED
    assert "n=500" in bound(mixed).detail


def test_a_risk_that_is_not_finite_refutes_where_no_bound_is_claimed_too(synthetic, replaced):
    table = synthetic(axes=N_ONLY, bound=math.inf)
    mixed = replaced(table, "value", lambda row: math.nan if row["n"] == 500 else 0.1)
    assert bound(mixed).outcome is Outcome.REFUTED


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_risk_that_is_not_finite_refutes(synthetic, bad, replaced):
    table = replaced(
        synthetic(axes=N_ONLY),
        "value",
        lambda row: (
            bad
            if (row["trial"], row["n"], row["replicate"]) == ("measured", 1000, 3)
            else row["value"]
        ),
    )
    for verdict in verdicts(table):
        assert verdict.outcome is Outcome.REFUTED
        assert "not finite" in verdict.detail
        assert "n=1000" in verdict.detail
        assert math.isnan(verdict.estimate)


def test_slopes_are_asked_only_where_the_rate_is_tight(synthetic):
    assert list(slopes(synthetic(families=("logistic",)))) == [None]
    assert list(slopes(synthetic(tight_on=None))) == [None]
    assert set(slopes(synthetic(exponents={"n": -1.0}))) == {"n"}


def test_an_experiment_may_ask_for_one_kind_only(synthetic):
    assert {v.check for v in verdicts(synthetic(checks=("bound",)))} == {"bound"}
    assert {v.check for v in verdicts(synthetic(checks=("slope",)))} == {"slope"}
    assert len(theorem_verdicts(cell_results(synthetic()))) == 4


def test_the_worst_strength_is_compared_even_where_it_changes(synthetic, replaced):
    # Strengths cross: each alone has another slope, their maximum has the theorem's.
    table = synthetic(axes=N_ONLY, replicates=100, profile_of_strength=(1.0, 1.0, 1.0))

    def steepened(row):
        best = 1.0 if row["n"] <= 1000 else 2.0
        return row["value"] * (1.0 if row["strength"] == best else 0.2)

    table = replaced(table, "value", steepened)
    assert slopes(table)["n"].outcome is Outcome.HOLDS
    one = table._replace(cells=table.cells.filter(pc.equal(table.cells["strength"], 2.0)))
    assert slopes(one)["n"].outcome is Outcome.REFUTED


def test_same_rows_same_verdicts_in_any_order(synthetic, shuffled):
    table = synthetic()
    assert verdicts(table) == verdicts(table)
    assert verdicts(shuffled(table)) == verdicts(table)


def test_cells_are_read_whole(synthetic):
    cells = cell_results(synthetic())
    assert len(cells) == 13 * 3
    base = [c for c in cells if c.setting == {"n": 2000, "dim": 16, "epsilon": 1.0, "steps": 100}]
    assert [c.axes for c in base] == [{"n", "dim", "epsilon"}] * 3
    assert worst(base).strength == 2.0
    assert list(cells_along(cells, "dim")) == [4, 8, 16, 32, 64]
    assert all(c.values.shape == (40,) for c in cells)


def test_only_measured_cells_are_read_unless_others_are_asked_for(synthetic):
    table = synthetic()
    assert {cell.trial for cell in cell_results(table)} == {Trial.MEASURED}
    bent = cell_results(table, (Trial.NOISE_BENT,))
    assert len(bent) == 15 * 3  # of the base setting one for each axis
    assert {len(cell.axes) for cell in bent} == {1}
    (cell,) = (c for c in bent if c.setting["n"] == 500 and c.strength == 1.0)
    assert table.cells["noise_factor"][cell.number].as_py() == pytest.approx(0.25**0.1)
    assert cell.values.shape == (10,)
    assert len(cell_results(table, tuple(Trial))) == 13 * 3 * 3 + 15 * 3


def test_a_replicate_that_stands_twice_is_refused(synthetic):
    table = synthetic()
    twice = table._replace(runs=pa.concat_tables([table.runs, table.runs.slice(0, 1)]))
    with pytest.raises(ValueError, match=r"replicate must be distinct within a cell"):
        verdicts(twice)


def test_a_failed_cell_leaves_the_bound_undecided(synthetic):
    """Runs of a failed cell might have refuted the bound; a refused plan has no runs."""
    cells = cell_results(synthetic(spread=0.1, replicates=200))
    pair = cells[0].experiment, cells[0].method, cells[0].family
    reasons = {"delta must be positive": Outcome.HOLDS, "failed: OSError: full": Outcome.UNDECIDED}
    for reason, outcome in reasons.items():
        names = dict(zip(("experiment", "method", "family"), pair, strict=True))
        missing = {**names, "trial": "measured", "axes": "", "refused": reason}
        verdict, *_ = theorem_verdicts(cells, ["bound"], [missing])
        assert verdict.check == "bound"
        assert verdict.outcome is outcome
