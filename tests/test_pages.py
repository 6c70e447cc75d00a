"""Pages of the book: their Python prints the shown output, and references have targets."""

import json
import re
import runpy
import sys
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from docutils.utils.math.latex2mathml import tex2mathml
from pages import ROOT, blocks, code_lines, printed, text_of
from selection import few

from privopt import accounting

FOLDER = ROOT / "docs"
GENERATED = {"api", "notebooks", "results"}
PAGES = sorted(
    str(path.relative_to(ROOT))
    for path in FOLDER.rglob("*.md")
    if path.relative_to(FOLDER).parts[0] not in GENERATED
)
THEORY = [page for page in PAGES if page.startswith("docs/theory/")]
FORMULA = re.compile(r"\$\$(.+?)\$\$|(?<!\$)\$([^$\n]+)\$(?!\$)", re.DOTALL)
WITH_CODE = [page for page in PAGES if blocks(page)]
# These compare or check algorithms, run a sweep or compute a table, for seconds each.
COSTLY = {
    "docs/guide/sweeps.md",
    *("docs/guide/which_algorithm.md", "docs/guide/comparing.md", "docs/theory/sparse_table.md"),
    *("docs/guide/clusters_and_devices.md", "docs/guide/own_algorithm.md"),
}
TREE = re.compile(r"```\{toctree\}\n(.*?)```", re.DOTALL)
FIRST_TASKS = {
    "docs/guide/own_loss.md": 15,
    "docs/guide/own_algorithm.md": 40,
    "docs/guide/own_data.md": 9,
}


def prose(page):
    """Return the text without blocks of code."""
    return re.sub(r"^```.*?^```", "", text_of(page), flags=re.DOTALL | re.MULTILINE)


@pytest.fixture
def people(tmp_path):
    """A CSV for the page of own data."""
    ages = np.tile(np.arange(20, 80), 100)
    frame = pd.DataFrame({"age": ages, "sector": np.where(ages % 2, "private", "public")})
    frame["income"] = np.where(ages > 50, "high", "low")
    frame.to_csv(tmp_path / "people.csv")
    return tmp_path


@pytest.mark.parametrize(
    "page", few([page for page in WITH_CODE if "own_data" not in page], set(WITH_CODE) - COSTLY)
)
def test_the_python_of_a_page_prints_the_shown_output(page, monkeypatch, registry):
    """The output is below the block or, for generated tables, anywhere in the page."""
    monkeypatch.chdir(ROOT)
    names: dict = {}
    for block in blocks(page):
        out = printed(block, page, names)
        if block.output is None:
            assert out.strip() in text_of(page)
        else:
            assert out == block.output


def test_a_model_from_a_csv_learns(people, monkeypatch):
    monkeypatch.chdir(people)
    (block,) = blocks("docs/guide/own_data.md")
    names: dict = {}
    printed(block, "own_data", names)
    model, frame = names["model"], names["frame"]
    assert model.guarantee_.epsilon(1e-6).upper <= 1.0
    assert model.score(names["table"].features(frame), frame["income"]) > 0.9


@pytest.mark.parametrize("page", FIRST_TASKS)
def test_a_first_task_takes_few_lines(page):
    assert len(code_lines(blocks(page)[0])) <= FIRST_TASKS[page]


@pytest.mark.parametrize("page", PAGES)
def test_every_output_belongs_to_a_block(page):
    outputs = [block for block in blocks(page) if block.output is not None]
    assert text_of(page).count("```text\n") == len(outputs)


def test_every_accountant_is_in_the_table():
    text = text_of("docs/guide/accounting.md")
    kinds = {type(each) for each in (*accounting.ACCOUNTANTS, *accounting.ESTIMATORS)}
    missing = [kind.__name__ for kind in kinds if f"`{kind.__name__}`" not in text]
    assert missing == ["NonPrivate"]


def formulas():
    """Return the formulas of every page and notebook, displayed and inline."""
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        text = "\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "markdown")
        yield from ((path.name, own or inline) for own, inline in FORMULA.findall(text))
    for page in PAGES:
        yield from ((page, own or inline) for own, inline in FORMULA.findall(prose(page)))


def test_the_book_can_draw_every_formula():
    pairs = list(formulas())
    assert len(pairs) > 50
    for _, formula in pairs:
        tex2mathml(formula)


def test_the_book_contains_every_page_and_notebook_once():
    listed = []
    for page in PAGES:
        folder = Path(page).relative_to("docs").parent
        for tree in TREE.findall(text_of(page)):
            listed += [str(folder / name) for name in re.findall(r"^[\w/]+$", tree, re.MULTILINE)]
    pages = {str(Path(page).relative_to("docs").with_suffix("")) for page in PAGES} - {"index"}
    notebooks = {f"notebooks/{path.stem}" for path in (ROOT / "notebooks").glob("*.ipynb")}
    assert sorted(listed) == sorted(pages | notebooks | {"api/index", "results/index"})


def test_theorems_and_docstrings_refer_to_each_other():
    """Every reference of a docstring has its theorem, and every theorem names existing tests."""
    text = "".join(map(text_of, THEORY))
    labels = re.findall(r"^\((theory-\w+-\d+)\)=$", text, re.MULTILINE)
    assert len(labels) == len(set(labels)) > 30
    sources = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "privopt").rglob("*.py"))
    assert set(re.findall(r"<(theory-[\w-]+)>", sources)) <= set(labels)
    tests = set(re.findall(r"`tests/([\w/]+\.py)::(\w+)`", text))
    assert len(tests) > 50
    assert [
        (file, name)
        for file, name in sorted(tests)
        if f"def {name}(" not in (ROOT / "tests" / file).read_text(encoding="utf-8")
    ] == []


def extension(name):
    sys.path.insert(0, str(FOLDER))
    try:
        return runpy.run_path(str(FOLDER / "_ext" / f"{name}.py"))
    finally:
        sys.path.remove(str(FOLDER))


def test_every_experiment_has_its_page_and_every_link_a_target():
    pages = extension("results")["pages"]()
    recorded = {path.parent.name for path in (ROOT / "results").glob("*/cells.parquet")}
    assert recorded <= set(pages)
    links = {link for text in pages.values() for link in re.findall(r"\]\((\w+)\.md\)", text)}
    assert links <= set(pages)
    pictures = {each for text in pages.values() for each in re.findall(r"\]\((\S+\.png)\)", text)}
    assert len(pictures) > len(recorded) / 2
    folder = FOLDER / "results"
    assert [each for each in pictures if not (folder / each).resolve().exists()] == []


def test_a_link_of_a_notebook_leads_to_a_file_and_to_a_page():
    link = re.compile(r"\]\(([^)#:]+)\)")
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        text = "\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "markdown")
        for target in link.findall(text):
            assert (path.parent / target).exists(), f"{path.name}: {target}"
    assert (
        extension("notebooks")["links_to_pages"](
            "[a](../docs/public.md) [b](../results/dp_gd/README.md)"
        )
        == "[a](../public.md) [b](../results/dp_gd.md)"
    )


def test_the_metadata_for_citation_agrees_with_the_package():
    project = tomllib.loads(text_of("pyproject.toml"))["project"]
    zenodo = json.loads(text_of(".zenodo.json"))
    assert zenodo["version"] == project["version"]
    assert f"version: {project['version']}\n" in text_of("CITATION.cff")
    assert f"version = {{{project['version']}}}" in text_of("README.md")
    assert zenodo["title"] in text_of("CITATION.cff")


def test_contributing_is_short():
    assert len(text_of("CONTRIBUTING.md").splitlines()) <= 150
