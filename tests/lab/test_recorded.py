"""Recorded experiments as data frames and figures."""

import re
from pathlib import Path

import numpy as np
import pytest

from privopt import lab
from privopt.lab.evaluation.cells import cell_results
from privopt.lab.evaluation.verdict import flatten_twins

RESULTS = Path(__file__).parents[2] / "results"


def test_the_frame_has_a_row_a_measured_run(synthetic):
    recorded = synthetic(methods=("dp_gd", "other"), axes={"n": (500, 2000)}, replicates=6)
    frame, cells = recorded.frame(), cell_results(recorded)
    assert len(frame) == sum(cell.values.size for cell in cells)
    assert len(recorded.table()) > len(frame)  # which has the controls, too
    means = frame.groupby(["method", "n", "strength"])["value"].mean()
    for cell in cells:
        at = cell.method, cell.setting["n"], cell.strength
        assert means[at] == pytest.approx(cell.mean, rel=1e-12)
    first = frame[frame["method"] == cells[0].method].query("n == 500 and strength == 1").iloc[0]
    told = (first["upper"], first["lower"], first["zero"], first["nonprivate"])
    assert told == (cells[0].upper, cells[0].lower, cells[0].start, cells[0].nonprivate)
    assert first["quantity"] == "empirical risk"


def test_choices_of_plans_are_columns(synthetic, replaced):
    recorded = replaced(synthetic(axes={"n": (500, 2000)}), "choices", lambda row: '{"cut": 2.5}')
    assert set(recorded.frame()["cut"]) == {2.5}


@pytest.mark.parametrize(("axis", "panels"), [(None, 3), ("dim", 1)])
def test_the_picture_has_a_panel_an_axis_and_nothing_is_cut_off(synthetic, axis, panels):
    methods = ("a_method_of_a_rather_long_name", "dp_gd")
    figure = synthetic(methods=methods).plot(axis)
    figure.draw_without_rendering()
    width, height = figure.get_size_inches() * figure.dpi
    assert len(figure.axes) == panels
    texts = [*figure.texts, figure._suptitle]
    texts += [text for place in figure.axes for text in place.texts]
    texts += [each for place in figure.axes for each in (place.xaxis.label, place.yaxis.label)]
    for text in filter(lambda text: text.get_text(), texts):
        box = text.get_window_extent()
        assert min(box.x0, box.y0) > -1.0, text.get_text()
        assert box.x1 < width, text.get_text()
        assert box.y1 < height + 1.0, text.get_text()
        assert text.get_fontsize() >= 8.0
    for place in figure.axes:
        boxes = [label.get_window_extent() for label in place.get_xticklabels()]
        assert len(boxes) > 1
        edges = np.array([(box.x0, box.x1) for box in boxes])
        assert np.all(edges[1:, 0] > edges[:-1, 1])


def test_what_cannot_be_drawn_is_named(synthetic):
    with pytest.raises(ValueError, match="axis must be one of n, dim, epsilon, got 'd'"):
        synthetic().plot("d")
    with pytest.raises(ValueError, match="recorded must have an axis with runs, got toy"):
        synthetic(axes={}).plot()


def test_an_analysis_has_figures_by_name(tmp_path):
    recorded = lab.read(RESULTS / "sparse_regimes")
    for name, title in ((None, "Gaussian noise"), ("risk_laplace", "Laplace noise")):
        assert recorded.plot(name).axes[0].texts[0].get_text() == title
    assert recorded.plot("risk_laplace")._repr_png_().startswith(b"\x89PNG")
    with pytest.raises(ValueError, match=r"name of a figure must be one of risk_g.* got 'r'"):
        recorded.plot("r")
    figure = recorded.plot(paper=True, path=tmp_path / "figure.png")
    assert figure.get_size_inches()[0] == 6.75
    assert figure.get_suptitle() == ""
    assert (tmp_path / "figure.pdf").is_file()


@pytest.mark.parametrize(("axis", "width"), [("n", 3.25), (None, 6.75)])
def test_a_paper_figure_has_data_theory_lines_and_slopes_only(tmp_path, axis, width):
    recorded = lab.read(RESULTS / "dp_gd")
    figure = recorded.plot(axis, paper=True, path=tmp_path / "figure.png")
    assert figure.get_size_inches()[0] == width
    assert figure.texts == []
    assert figure._suptitle is None
    slope = re.compile(r"DP-GD( oracle-tuned)?, slope −?\d\.\d\d")
    for place in figure.axes:
        assert all(slope.fullmatch(t.get_text()) for t in place.get_legend().get_texts())
        assert len(place.collections) == 2  # error bars
    assert (tmp_path / "figure.pdf").read_bytes().startswith(b"%PDF")
    data = (tmp_path / "figure.png").read_bytes()
    assert int.from_bytes(data[16:20], "big") == int(300 * width)


def test_a_fitted_slope_of_a_paper_figure_is_that_of_the_verdict():
    recorded = lab.read(RESULTS / "dp_gd")
    (place,) = recorded.plot("dim", paper=True).axes
    slopes = {v.untuned: v for v in flatten_twins(lab.verdicts(recorded)) if v.axis == "dim"}
    for text in place.get_legend().get_texts():
        verdict = slopes["oracle-tuned" in text.get_text()]
        slope = float(text.get_text().rpartition(" ")[2])
        assert slope == pytest.approx(verdict.estimate, abs=0.005)


def test_a_method_has_one_colour_in_every_figure():
    used = {}
    for name in ("dp_gd", "first_order", "real_data", "synthetic"):
        for place in lab.read(RESULTS / name).plot().axes:
            for line in place.get_lines():
                used.setdefault(line.get_label(), set()).add(line.get_color())
    methods = "DP-GD", "DP-SGD", "NoisyAdam", "objective perturbation", "output perturbation"
    assert all(len(used[method]) == 1 for method in methods)
    assert len(set().union(*(used[method] for method in methods))) == 5
