"""The pages of the book: their Python prints what they say, and they lead to each other."""

import json
import re
import runpy
import tomllib
from pathlib import Path

import pytest
from docutils.utils.math.latex2mathml import tex2mathml
from pages import ROOT, blocks, printed, text_of

FOLDER = ROOT / "notebooks"
THEORY = sorted(str(path.relative_to(ROOT)) for path in (FOLDER / "theory").glob("*.md"))
PAGES = sorted([*(str(path.relative_to(ROOT)) for path in FOLDER.glob("*.md")), *THEORY])
FORMULA = re.compile(r"\$\$(.+?)\$\$|(?<!\$)\$([^$\n]+)\$(?!\$)", re.DOTALL)
WITH_CODE = [page for page in PAGES if blocks(page)]


def prose(page):
    """The text between blocks of code."""
    return re.sub(r"^```.*?^```", "", text_of(page), flags=re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("page", WITH_CODE)
def test_its_python_prints_what_the_page_says(page, monkeypatch):
    """Below the block, or, where the page says it in a table of its own, anywhere."""
    monkeypatch.chdir(ROOT)
    names: dict = {}
    for block in blocks(page):
        out = printed(block, page, names)
        if block.told is None:
            assert out.strip() in text_of(page)
        else:
            assert out == block.told


@pytest.mark.parametrize("page", PAGES)
def test_every_text_that_looks_printed_belongs_to_a_block(page):
    told = [block for block in blocks(page) if block.told is not None]
    assert text_of(page).count("```text\n") == len(told)


def formulas():
    """Of every page and notebook: those of a line of their own, and those within a line."""
    for path in sorted(FOLDER.glob("*.ipynb")):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        text = "\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "markdown")
        yield from ((path.name, own or within) for own, within in FORMULA.findall(text))
    for page in PAGES:
        yield from ((page, own or within) for own, within in FORMULA.findall(prose(page)))


def test_the_book_can_draw_every_formula():
    found = list(formulas())
    assert len(found) > 50
    for _, formula in found:
        tex2mathml(formula)


def test_the_book_holds_every_page_and_notebook_once():
    trees = re.findall(r"```\{toctree\}\n(.*?)```", text_of("notebooks/index.md"), re.DOTALL)
    listed = re.findall(r"^[\w/]+$", "\n".join(trees), re.MULTILINE)
    files = {path.stem for pattern in ("*.md", "*.ipynb") for path in FOLDER.glob(pattern)}
    indices = {"api/index", "plates/index", "theory/index"}
    assert sorted(listed) == sorted({*files, *indices} - {"index"})
    (tree,) = re.findall(
        r"```\{toctree\}\n(.*?)```", text_of("notebooks/theory/index.md"), re.DOTALL
    )
    theory = re.findall(r"^\w+$", tree, re.MULTILINE)
    assert sorted([*theory, "index"]) == [Path(page).stem for page in THEORY]


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


def test_every_plate_has_its_page_and_links_to_none_that_is_not_there():
    plates = runpy.run_path(str(FOLDER / "book" / "plates.py"))["pages"]()
    recorded = {path.parent.name for path in (ROOT / "results").glob("*/cells.parquet")}
    assert recorded <= set(plates)
    links = {link for text in plates.values() for link in re.findall(r"\]\((\w+)\.md\)", text)}
    assert links <= set(plates)
    pictures = {each for text in plates.values() for each in re.findall(r"\]\((\S+\.png)\)", text)}
    assert len(pictures) > len(recorded) / 2
    assert [each for each in pictures if not (FOLDER / "plates" / each).resolve().exists()] == []


def test_what_tells_how_to_cite_agrees_with_the_package():
    told = tomllib.loads(text_of("pyproject.toml"))["project"]
    zenodo = json.loads(text_of(".zenodo.json"))
    assert zenodo["version"] == told["version"]
    assert f"version: {told['version']}\n" in text_of("CITATION.cff")
    assert zenodo["title"] in text_of("CITATION.cff")
