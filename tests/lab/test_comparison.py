"""One picture for all algorithms: what is drawn is what was measured."""

from dataclasses import replace

import numpy as np
import pytest

from privopt.lab.draw.comparison import comparison
from privopt.lab.draw.figures import figures
from privopt.lab.draw.grids import grid_cells, grid_figure
from privopt.lab.judge.results import cell_results
from privopt.lab.judge.verdicts import verdicts
from privopt.lab.write.captions import of_grid, of_method


@pytest.fixture
def two(synthetic):
    return synthetic(methods=("dp_gd", "output_perturbation"))


def drawn(recorded, folder, judged=()):
    return [path.name for path in figures(cell_results(recorded), folder, judged)]


def test_each_thing_is_drawn_once(synthetic, two, tmp_path):
    assert drawn(synthetic(), tmp_path) == ["dp_gd.svg", "dp_gd.png"]
    assert drawn(two, tmp_path) == ["compared.svg", "compared.png"]
    own = [verdict for verdict in verdicts(two) if verdict.check == "slope"]
    names = ["dp_gd", "output_perturbation"]
    files = [f"{name}{suffix}" for name in names for suffix in (".svg", ".png")]
    assert drawn(two, tmp_path, own) == files


def test_files_are_the_same_to_the_byte_whatever_the_order_of_rows(two, shuffled, tmp_path):
    first, again = (
        figures(cell_results(each), tmp_path / name, ())
        for name, each in (("a", two), ("b", shuffled(two)))
    )
    assert first
    for one, other in zip(first, again, strict=True):
        assert one.read_bytes() == other.read_bytes()


def test_lines_are_means_between_the_optimum_and_the_start(two):
    cells = cell_results(two)
    figure = comparison(cells)
    panel = figure.axes[0]
    lines = {line.get_label(): np.asarray(line.get_ydata()) for line in panel.get_lines()}
    assert set(lines) == {
        "dp_gd",
        "output_perturbation",
        "zero predictor",
        "non-private optimum",
    }
    along_n = [c for c in cells if "n" in c.axes and c.method == "dp_gd"]
    sizes = sorted({c.setting["n"] for c in along_n})
    worst = [max(c.mean for c in along_n if c.setting["n"] == n) for n in sizes]
    np.testing.assert_allclose(lines["dp_gd"], along_n[0].optimum + np.array(worst))
    np.testing.assert_allclose(lines["non-private optimum"], along_n[0].optimum)
    assert np.all(lines["zero predictor"] >= lines["non-private optimum"])
    low, high = panel.get_ylim()
    assert low < along_n[0].optimum < along_n[0].optimum + along_n[0].start < high


def test_a_grid_is_drawn_by_its_constants(synthetic, replaced, tmp_path):
    table = synthetic(axes={"n": (500, 2000), "dim": (8, 32)}, spread=0.01, checks=("bound",))
    law = replaced(table, "axes", lambda row: f"{row['axes']},n x dim")
    (grid,) = grid_cells(cell_results(law)).values()
    texts = [text.get_text() for text in grid_figure(grid).axes[0].texts]
    assert len(texts) == 4  # a cross: not every combination was run
    assert all(abs(float(text) - 0.5) < 0.01 for text in texts)  # of the worst strength
    assert "grid_n_dim.svg" in drawn(law, tmp_path / "grid")
    alone = replaced(table, "axes", lambda row: "n x dim")
    assert drawn(alone, tmp_path / "alone") == ["grid_n_dim.svg", "grid_n_dim.png"]
    caption, alt = of_grid(grid)
    assert caption.startswith("The mean over its upper bound at every combination of records")
    assert alt.endswith("dp_gd on linear 0.5")
    assert grid_cells(cell_results(table)) == {}


def test_a_caption_tells_of_the_worst_strength_alone(cells_of):
    cells = cells_of()
    weak = [replace(cell, strength=9.0, values=cell.values / 10.0) for cell in cells]
    caption, _ = of_method(cells, ())
    assert "of that bound" in caption
    assert of_method([*weak, *cells], ())[0] == caption
