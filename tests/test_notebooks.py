"""The notebooks run from top to bottom, at sizes small enough for a test.

A cell tagged ``parameters`` holds the sizes; here they are replaced.
"""

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from selection import few

FOLDER = Path(__file__).parents[1] / "notebooks"
SMALL = {
    "00_quickstart.ipynb": "n, dim, replicates = 200, 4, 10\nepsilons = [0.5, 2.0]",
    "accounting.ipynb": (
        "noise, rate, steps, delta = 1.1, 0.01, 100, 1e-5\npoints, largest = 2, 4"
    ),
    "audit.ipynb": 'runs, methods = 5000, ["output_perturbation"]',
    "compare.ipynb": (
        "n, dim, replicates, data_sets = 200, 4, 4, 2\n"
        'epsilons, methods = [0.5, 2.0], ["output_perturbation", "dp_gd"]'
    ),
    "dp_ftrl.ipynb": (
        "leaves, prefix, record = 6, 5, 3\nlength, steps = 16, 64\nn, dim, replicates = 40, 4, 8"
    ),
    "extend.ipynb": "epsilons, n, dim, replicates = (0.5, 1.0), 100, 4, 10",
    "sparse_gradients.ipynb": (
        "dim, sparsity, size, runs, counts = 64, 4, 64, 2, [1, 16]\n"
        "small_n, draws, batch, reduced = 16, 100, 16, 1024"
    ),
    "what_is_new.ipynb": (
        "curvatures = np.logspace(0, 4, 3)\nhub_records, solved_records = 1000, 10\n"
        "sizes = np.logspace(4, 14, 21)\ndims, draws, descent, most = [64], 50, 512, 2"
    ),
    "your_data.ipynb": "n, replicates = 200, 4\nepsilons = [0.5, 2.0]",
    "your_loss.ipynb": "n, dim, replicates = 200, 4, 2\nepsilons = (1.0, 2.0)",
}
CLEAN = """
%reset -f
import jax, matplotlib
from privopt import algorithms
matplotlib.rcdefaults()
%matplotlib inline
jax.config.update("jax_enable_x64", False)
for name in set(algorithms.ALGORITHMS) - algorithms.BUILT_IN:  # of the previous notebook
    algorithms._REGISTERED.pop(name)
"""


def read(name):
    return nbformat.read(FOLDER / name, as_version=4)


def codes(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


@pytest.fixture(scope="module")
def kernel():
    """One kernel for all notebooks, so that imports and programs are shared."""
    client = NotebookClient(
        nbformat.v4.new_notebook(), timeout=120, resources={"metadata": {"path": str(FOLDER)}}
    )
    with client.setup_kernel():
        yield client


def test_every_notebook_has_small_sizes():
    assert {path.name for path in FOLDER.glob("*.ipynb")} == set(SMALL)


@pytest.mark.thorough  # as the README and the pages
@pytest.mark.parametrize("name", few(sorted(SMALL), ["00_quickstart.ipynb"]))
def test_runs(name, kernel):
    notebook = read(name)
    tagged = [cell for cell in notebook.cells if "parameters" in cell.metadata.get("tags", ())]
    assert len(tagged) == 1
    tagged[0].source = SMALL[name]
    notebook.cells.insert(0, nbformat.v4.new_code_cell(CLEAN))
    kernel.nb = notebook
    for index, cell in enumerate(notebook.cells):
        kernel.execute_cell(cell, index)


@pytest.mark.parametrize("name", sorted(SMALL))
def test_is_committed_executed_and_small(name):
    cells = codes(read(name))
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    assert not any(o.output_type == "error" for cell in cells for o in cell.outputs)
    assert (FOLDER / name).stat().st_size < 500_000


@pytest.mark.parametrize("name", sorted(SMALL))
def test_the_first_output_is_a_figure(name):
    first = next(outputs for cell in codes(read(name)) if (outputs := cell.outputs))
    results = [each for each in first if each.output_type != "stream"]  # without the forecast
    assert "image/png" in results[0].data


def test_the_verdicts_of_a_loss_of_your_own_could_fail():
    outputs = [
        o.text for cell in codes(read("your_loss.ipynb")) for o in cell.outputs if "text" in o
    ]
    verdicts = [line for text in outputs for line in text.splitlines() if "mean/bound" in line]
    assert len(verdicts) == 2
    assert all(": holds" in line for line in verdicts)


def test_a_model_from_a_table_takes_forty_lines():
    lines = [line for cell in codes(read("your_data.ipynb")) for line in cell.source.splitlines()]
    assert len(list(filter(str.strip, lines))) <= 40
