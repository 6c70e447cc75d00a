"""The notebooks run from top to bottom, at sizes small enough for a test.

A cell tagged ``parameters`` holds the sizes; here they are replaced.
"""

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

FOLDER = Path(__file__).parents[1] / "notebooks"
SMALL = {
    "00_quickstart.ipynb": "n, dim, replicates = 200, 4, 10\nepsilons = [0.5, 2.0]",
    "accounting.ipynb": (
        "noise, rate, steps, delta = 1.1, 0.01, 100, 1e-5\npoints, largest = 3, 4"
    ),
    "compare.ipynb": (
        "n, dim, replicates, data_sets = 100, 3, 4, 2\n"
        'epsilons, methods = [0.5, 2.0], ["output_perturbation", "phased_sgd"]'
    ),
    "dp_ftrl.ipynb": (
        "leaves, prefix, record = 6, 5, 3\n"
        "length, sizes = 16, [8, 16, 32, 64]\n"
        "n_records, dim, pull, replicates = [40, 64], 4, 0.5, 8"
    ),
    "extend.ipynb": "sizes, dim, replicates = (100, 150, 200, 250), 10, 20",
    "sparse_gradients.ipynb": (
        "dim, sparsity, runs = 64, 4, 2\n"
        "sizes = [64, 256]\n"
        "sparsities, pure_size = [4], 64\n"
        "recovered, wide, counts = [64], 2048, [1, 16, 64]\n"
        "descended, descent_dim = [1024], 64\n"
        "small_n, draws, batch, reduced = 16, 100, 16, [256, 1024]\n"
        "dims, map_sizes = [64], [16, 128, 1024]"
    ),
    "what_is_new.ipynb": (
        "curvatures = np.logspace(0, 4, 3)\nhub_records, solved_records = 1000, 10\n"
        "sizes = np.logspace(4, 14, 21)\ndims, draws, descent, most = [64], 50, 512, 2"
    ),
    "your_data.ipynb": "n, dim, replicates = 200, 4, 2\nepsilons = (1.0, 2.0)",
}


def test_every_notebook_is_here():
    assert {path.name for path in FOLDER.glob("*.ipynb")} == set(SMALL)


@pytest.mark.parametrize("name", sorted(SMALL))
def test_runs(name):
    notebook = nbformat.read(FOLDER / name, as_version=4)
    tagged = [cell for cell in notebook.cells if "parameters" in cell.metadata.get("tags", ())]
    assert len(tagged) == 1
    tagged[0].source = SMALL[name]
    NotebookClient(notebook, timeout=120, kernel_name="python3").execute()


@pytest.mark.parametrize("name", sorted(SMALL))
def test_is_committed_executed_and_small(name):
    notebook = nbformat.read(FOLDER / name, as_version=4)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    assert not any(o.output_type == "error" for cell in code for o in cell.outputs)
    assert any("image/png" in o.get("data", {}) for cell in code for o in cell.outputs)
    assert (FOLDER / name).stat().st_size < 500_000
