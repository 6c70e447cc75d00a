"""One picture for all algorithms: what is drawn is what was measured."""

import numpy as np
import pytest

from privopt.lab.show import figures as module
from privopt.lab.show.figures import figures
from privopt.lab.show.results import cell_results


@pytest.fixture
def two(synthetic):
    return synthetic(methods=("dp_gd", "output_perturbation"))


def test_a_single_algorithm_is_not_compared(synthetic, tmp_path):
    assert module._compared(cell_results(synthetic()), tmp_path) == []


def test_files_are_the_same_to_the_byte_whatever_the_order_of_rows(two, shuffled, tmp_path):
    first, again = (
        figures(cell_results(each), tmp_path / name, ())
        for name, each in (("a", two), ("b", shuffled(two)))
    )
    stems = [path.name for path in first]
    assert stems[:2] == ["compared.svg", "compared.png"]
    assert {"dp_gd.svg", "output_perturbation.svg"} < set(stems)
    for one, other in zip(first, again, strict=True):
        assert one.read_bytes() == other.read_bytes()


def test_lines_are_means_between_the_optimum_and_the_start(two, tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(module, "save", lambda draw, *_: drawn.append(draw()) or [])
    cells = cell_results(two)
    module._compared(cells, tmp_path)
    (figure,) = drawn
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
