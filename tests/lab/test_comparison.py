"""Tests of the figure that compares all algorithms: it shows the measured values."""

from dataclasses import replace

import numpy as np
import pytest
from matplotlib.text import Text

from privopt.lab.evaluation.cells import cell_results
from privopt.lab.evaluation.verdicts import verdicts
from privopt.lab.plotting.curves import curve_figure
from privopt.lab.plotting.heatmaps import grid_cells, grid_figure
from privopt.lab.plotting.recorded import sweep_figures
from privopt.lab.report.sections import grid_caption, method_caption


@pytest.fixture
def two(synthetic):
    return synthetic(methods=("dp_gd", "output_perturbation"))


def drawn(recorded, folder, judged=()):
    return [path.name for path in sweep_figures(cell_results(recorded), folder, judged)]


def test_each_thing_is_drawn_once(synthetic, two, tmp_path):
    assert drawn(synthetic(), tmp_path) == ["dp_gd.png"]
    assert drawn(two, tmp_path) == ["compared.png"]
    own = [verdict for verdict in verdicts(two) if verdict.check == "slope"]
    names = ["dp_gd", "output_perturbation"]
    files = [f"{name}.png" for name in names]
    assert drawn(two, tmp_path, own) == files


def test_files_are_the_same_to_the_byte_whatever_the_order_of_rows(two, shuffled, tmp_path):
    first, again = (
        sweep_figures(cell_results(each), tmp_path / name, ())
        for name, each in (("a", two), ("b", shuffled(two)))
    )
    assert first
    for one, other in zip(first, again, strict=True):
        assert one.read_bytes() == other.read_bytes()


def test_lines_are_means_between_the_bounds_and_the_start(two):
    cells = cell_results(two)
    panel = curve_figure(cells).axes[0]
    lines = {line.get_label(): np.asarray(line.get_ydata()) for line in panel.get_lines()}
    along_n = [c for c in cells if "n" in c.axes and c.method == "dp_gd"]
    sizes = sorted({c.setting["n"] for c in along_n})
    worst = [max(c.mean for c in along_n if c.setting["n"] == n) for n in sizes]
    np.testing.assert_allclose(lines["DP-GD"], worst)
    np.testing.assert_allclose(lines["zero predictor"], along_n[0].start)
    bound = {c.setting["n"]: c.upper for c in along_n}
    np.testing.assert_allclose(lines["DP-GD: upper bound"], [bound[n] for n in sizes])
    assert "output perturbation" in lines
    low, high = panel.get_ylim()
    assert low < min(worst) < along_n[0].start < high


def test_every_method_has_a_colour_and_a_name_of_its_own(synthetic):
    methods = tuple(f"method_{k}" for k in range(8))
    figure = curve_figure(cell_results(synthetic(methods=methods, axes={"n": (500, 2000)})))
    (panel,) = figure.axes
    names = [method.replace("_", " ") for method in methods]
    named = {" ".join(t.get_text().split()[:2]): t.get_color() for t in panel.texts}
    colours = [named[name] for name in names]
    assert len(set(colours)) == 8  # seven, and grey for what is left
    drawn = {line.get_label(): line.get_color() for line in panel.get_lines()}
    assert all(drawn[name] == named[name] for name in names)
    figure.draw_without_rendering()
    boxes = [Text.get_window_extent(text) for text in panel.texts]
    edges = np.array(sorted((box.y0, box.y1) for box in boxes))
    assert np.all(edges[1:, 0] > edges[:-1, 1] - 2.0)  # names lie apart
    assert "thin and grey: others" in figure.texts[-1].get_text()


def test_a_grid_is_drawn_by_its_constants(synthetic, replaced, tmp_path):
    table = synthetic(axes={"n": (500, 2000), "dim": (8, 32)}, spread=0.01, checks=("bound",))
    law = replaced(table, "axes", lambda row: f"{row['axes']},n x dim")
    (grid,) = grid_cells(cell_results(law)).values()
    texts = [text.get_text() for text in grid_figure(grid).axes[0].texts[:4]]
    assert len(texts) == 4  # a cross: not every combination was run
    assert all(abs(float(text) - 0.5) < 0.01 for text in texts)  # of the worst strength
    assert "grid_n_dim.png" in drawn(law, tmp_path / "grid")
    alone = replaced(table, "axes", lambda row: "n x dim")
    assert drawn(alone, tmp_path / "alone") == ["grid_n_dim.png"]
    caption, alt = grid_caption(grid)
    assert caption.startswith(
        "The mean divided by its upper bound for every combination of records"
    )
    assert alt.endswith("DP-GD on linear 0.5")
    assert grid_cells(cell_results(table)) == {}


def test_panels_of_a_grid_have_one_scale(synthetic, replaced):
    axes = {"n": (500, 2000), "dim": (8, 32)}
    two = synthetic(methods=("dp_gd", "other"), axes=axes, spread=0.01, checks=("bound",))
    louder = replaced(two, "axes", lambda row: "n x dim")
    louder = replaced(louder, "value", lambda row: row["value"] * (1 + (row["method"] == "other")))
    (grid,) = grid_cells(cell_results(louder)).values()
    *panels, bar = grid_figure(grid).axes
    shades = [panel.patches[0].get_alpha() for panel in panels]
    assert shades[1] == pytest.approx(0.6, abs=0.01)  # of the largest constant
    assert shades[0] == pytest.approx(0.05 + 0.55 / 2.0, abs=0.02)  # half of it
    assert bar.get_ylim() == pytest.approx((0.0, 1.0), abs=0.02)


def test_every_panel_of_a_grid_has_room(synthetic, replaced):
    """Seven methods; of panels that vanish matplotlib warns, which is an error in tests."""
    methods = tuple(f"method_{k}" for k in range(7))
    table = synthetic(methods=methods, axes={"n": (500, 2000), "dim": (8, 32)}, checks=("bound",))
    (grid,) = grid_cells(cell_results(replaced(table, "axes", lambda row: "n x dim"))).values()
    figure = grid_figure(grid)
    figure.draw_without_rendering()
    *panels, _ = figure.axes
    assert min(panel.get_position().width for panel in panels) > 0.2


def test_a_caption_tells_of_the_worst_strength_alone(cells_of):
    cells = cells_of()
    weak = [replace(cell, strength=9.0, values=cell.values / 10.0) for cell in cells]
    caption, _ = method_caption(cells, ())
    assert "of the bound" in caption
    assert method_caption([*weak, *cells], ())[0] == caption
