"""One picture for all algorithms: what is drawn is what was measured."""

import numpy as np
import pytest

from privopt.lab.show.comparison import comparison
from privopt.lab.show.figures import figures
from privopt.lab.show.report import verdicts
from privopt.lab.show.results import cell_results


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
