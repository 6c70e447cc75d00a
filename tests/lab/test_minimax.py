"""A lower bound is a line where it holds, and a tick at the margin of every other problem."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from privopt.lab import plotting
from privopt.lab.evaluation.cells import cell_results, cells_along, grouped, swept_axes, worst
from privopt.lab.plotting.curves import curve_figure
from privopt.lab.runner.quantities import _HARD, is_minimax
from privopt.lab.runner.store import read, recorded_names
from privopt.problems import FAMILIES

RESULTS = Path(__file__).parents[2] / "results"
SIZES = (500, 1000, 2000)
ERRORS = 4.0  # standard errors: a false alarm in one of 30,000 cells


def lines(figure, words):
    """Return the lines of a figure with labels that contain the words."""
    return [
        line for place in figure.axes for line in place.get_lines() if words in line.get_label()
    ]


def swept(synthetic, family):
    """Return a sweep over n with a lower bound for its guarantee, larger than the budget's."""
    recorded = synthetic(families=(family,), axes={"n": SIZES}, checks=("bound",))
    return [
        replace(cell, own_lower=2.0 * cell.lower, own_guarantee="0.5-Gaussian DP")
        for cell in cell_results(recorded)
    ]


def test_it_holds_on_hard_families_alone():
    assert set(_HARD) <= set(FAMILIES)
    assert is_minimax("linear", pure=False)
    assert is_minimax("linear", pure=True)
    for easy in ("far_distance", "squared_distance", "two_kinks", "sparse_silence", "a9a", "mine"):
        assert not is_minimax(easy, pure=False)
        assert not is_minimax(easy, pure=True)


def test_a_hard_family_has_a_line_for_each_guarantee(synthetic):
    cells = swept(synthetic, "linear")
    figure = curve_figure(cells)
    assert lines(figure, "worst problem") == []
    names = {"lower bound (worst case)": 1.0, "lower bound, μ-Gaussian DP": 2.0}
    for name, factor in names.items():
        (line,) = [each for each in lines(figure, name) if each.get_label() == name]
        expected = [factor * worst(same).lower for same in cells_along(cells, "n").values()]
        np.testing.assert_allclose(line.get_ydata(), expected)


@pytest.mark.parametrize("family", ["two_kinks", "breast_cancer_logistic", "of_a_user"])
def test_another_problem_has_a_tick_at_the_right_end(synthetic, family):
    cells = swept(synthetic, family)
    figure = curve_figure(cells)
    assert lines(figure, "worst case") == []
    ticks = lines(figure, "lower bound, worst problem")
    for tick, factor in zip(ticks, (1.0, 2.0), strict=True):
        last = worst(cells_along(cells, "n")[max(SIZES)])
        assert tick.get_xydata().tolist() == [[1.0, factor * last.lower]]
        x, _ = tick.get_transform().transform((1.0, last.lower))
        assert x == pytest.approx(figure.axes[0].bbox.x1)
        assert figure.axes[0].get_ylim()[0] < last.lower
    names = [text.get_text() for text in figure.axes[0].texts]
    assert {"lower bound, worst problem", "lower bound, worst problem: μ-Gaussian DP"} <= set(names)


def test_an_unknown_bound_has_no_tick_and_takes_no_room(synthetic):
    cells = swept(synthetic, "two_kinks")
    known, unknown = (
        curve_figure([replace(cell, lower=factor * cell.lower, own_lower=0.0) for cell in cells])
        for factor in (1.0, 0.0)
    )
    assert lines(unknown, "worst problem") == []
    for figure in (known, unknown):
        figure.draw_without_rendering()
    assert unknown.axes[0].bbox.width >= known.axes[0].bbox.width


def test_a_tick_far_below_is_told(synthetic):
    cells = [replace(cell, lower=1e-9, own_lower=2e-9) for cell in swept(synthetic, "two_kinks")]
    figure = curve_figure(cells)
    names = [text.get_text() for text in figure.axes[0].texts]
    assert "↓ lower bound, worst problem" in names
    assert figure.axes[0].get_ylim()[0] > 1e-6


@pytest.mark.parametrize(("family", "holds"), [("linear", True), ("a9a_logistic", False)])
def test_methods_beside_each_other_have_the_line_or_the_tick(synthetic, family, holds):
    methods = ("dp_gd", "output_perturbation")
    recorded = synthetic(methods=methods, families=(family,), axes={"n": SIZES}, checks=())
    cells = cell_results(recorded)
    figure = curve_figure(cells)
    assert len(lines(figure, "lower bound (worst case)")) == holds
    assert len(lines(figure, "lower bound, worst problem")) == (not holds)
    told = " ".join(figure.texts[-1].get_text().split())
    assert ("dotted: no method within the budget" in told) == holds
    assert ("tick at the right: lower bound of the worst problem" in told) == (not holds)
    names = [text.get_text() for text in figure.axes[0].texts]
    assert ("lower bound, worst problem" in names) == (not holds)


def test_a_tick_beyond_the_panel_is_not_drawn(synthetic):
    """The label says that the bound is below the panel; the tick would be in another panel."""
    recorded = synthetic(families=("a9a_logistic", "two_kinks"), axes={"n": SIZES}, checks=())
    cells = [replace(cell, lower=1e-9) for cell in cell_results(recorded)]
    figure = curve_figure(cells)
    figure.draw_without_rendering()
    for place, tick in zip(figure.axes, lines(figure, "worst problem"), strict=True):
        low, high = place.get_ylim()
        assert not low < 1e-9 < high
        x, y = tick.get_transform().transform(tick.get_xydata()[0])
        assert not tick.get_clip_box().contains(x, y)
        assert "↓ lower bound, worst problem" in [text.get_text() for text in place.texts]


def test_an_analysis_can_have_ticks_at_the_margin():
    frame = pd.DataFrame({"x": x, "risk": 2.0 / x} for x in (2.0, 10.0, 100.0))

    def risk_figure():
        figure, (axes,) = plotting.panels("title")
        axes.set(xscale="log", yscale="log")
        plotting.curve(axes, frame, "x", "risk", label="risk")
        plotting.margin_tick(axes, 0.01, "lower bound, worst problem", plotting.GREEN)
        return figure

    figure = plotting.draw(risk_figure)
    (tick,) = lines(figure, "lower bound, worst problem")
    assert tick.get_xydata().tolist() == [[1.0, 0.01]]
    assert figure.axes[0].dataLim.x0 == 2.0


@pytest.mark.parametrize("name", recorded_names(RESULTS))
def test_no_committed_curve_is_below_a_line(name):
    recorded = read(RESULTS / name)
    cells = () if recorded.is_analysis else cell_results(recorded)
    shown = [cell for cell in cells if swept_axes([cell]) and cell.is_minimax]
    at = grouped(shown, lambda cell: (cell.method, cell.family, str(sorted(cell.setting.items()))))
    for same in at.values():
        top = worst(same)
        least = max(top.lower_bounds.values())
        assert least <= top.mean + ERRORS * top.standard_error, (name, top.place)
