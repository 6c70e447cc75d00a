"""Figures and report: made from tables alone, the same to the byte, and what they must say."""

import math
import re
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest
from matplotlib.figure import Figure

from privopt.lab.make.folder import ResultsError, open_results
from privopt.lab.make.records import read, recorded_names, write_provenance, write_recorded
from privopt.lab.make.resume import Drawing
from privopt.lab.show import report
from privopt.lab.show.figures import figures
from privopt.lab.show.report import verdicts, write_report
from privopt.lab.show.results import cell_results
from privopt.lab.show.style import number, signed

SMALL = {
    "axes": {"n": (500, 1000, 2000, 4000), "dim": (8, 16, 32, 64)},
    "replicates": 40,
    "spread": 0.1,
}
REAL = {"axes": {"n": (500, 1000, 2000)}, "replicates": 10, "checks": ("bound",)}
PROVENANCE = {"run_seconds": 12.34, "compile_seconds": 5.67, "cells": 15, "reused": 2}
PROVENANCE |= {"environment": {"machine": "abacus"}, "code": "0123456789abcdef" * 4}


def keep(results, recorded):
    folder = results / recorded.about["name"]
    write_recorded(folder, recorded)
    write_provenance(folder, PROVENANCE)


def contents(folder):
    return {p.relative_to(folder): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


@pytest.fixture(scope="module")
def results(synthetic, tmp_path_factory):
    """A results folder with three experiments of which one is refuted, and its report."""
    folder = open_results(tmp_path_factory.mktemp("results") / "results")
    keep(folder, synthetic(**SMALL, experiment="true"))
    keep(folder, synthetic(**SMALL, experiment="wrong", true={"n": -0.5, "dim": 0.5}))
    real = {**REAL, "families": ("a9a", "digits"), "tight_on": None}
    keep(folder, synthetic(**real, experiment="real", methods=("dp_gd", "other")))
    assert write_report(folder) == folder / "index.html"
    return folder


@pytest.fixture(scope="module")
def page(results):
    return (results / "index.html").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def readme(results):
    return (results / "README.md").read_text(encoding="utf-8")


class Reader(HTMLParser):
    """Collects tags, ids and links; fails on tags that do not match."""

    VOID = ("meta", "img", "br", "link")

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.ids, self.links, self.text = [], [], [], [], []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.tags.append(tag)
        self.ids += [found["id"]] if "id" in found else []
        self.links += [found[name] for name in ("href", "src") if name in found]
        if tag == "img":
            assert found["alt"]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


# --- figures --------------------------------------------------------------------------------------


def test_one_figure_an_algorithm_and_one_for_several_as_svg_and_png(results):
    made = {str(path) for path in contents(results) if path.suffix in (".svg", ".png")}
    stems = ("real/compared", "real/dp_gd", "real/other", "true/dp_gd", "wrong/dp_gd")
    assert made == {f"{stem}{suffix}" for stem in stems for suffix in (".svg", ".png")}
    for name in made:
        data = (results / name).read_bytes()
        if name.endswith(".svg"):
            ElementTree.fromstring(data)
            assert b"prefers-color-scheme:dark" in data
        else:
            width = int.from_bytes(data[16:20], "big")
            assert 880 <= width <= 920
            assert b"matplotlib" not in data


def test_figures_are_the_same_to_the_byte(synthetic, tmp_path):
    table = synthetic(**SMALL)
    cells = cell_results(table)
    first, second = (figures(cells, tmp_path / name, verdicts(table)) for name in ("a", "b"))
    assert [path.name for path in first] == ["dp_gd.svg", "dp_gd.png"]
    for a, b in zip(first, second, strict=True):
        assert a.read_bytes() == b.read_bytes()
    assert not re.search(rb"<dc:date>|20\d\d-\d\d", first[0].read_bytes())


@pytest.mark.parametrize(
    "columns",
    [
        {"lower": 0.0},
        {"nonprivate_value": 0.0},
        {"nonprivate_value": 1e-12},
        {"nonprivate_value": -1e-17},
        {"upper": math.inf, "start_value": math.nan},
        {"value": math.nan},
        {"value": 0.0, "upper": 0.0, "lower": 0.0, "start_value": 0.0},
        {"strength": math.inf, "axes": ""},
    ],
)
def test_figures_and_report_survive_numbers_that_no_scale_can_show(
    synthetic, replaced, tmp_path, columns
):
    folder = open_results(tmp_path / "results")
    table = synthetic(**REAL, strengths=(1.0,), profile_of_strength=(1.0,))
    for name, value in columns.items():
        table = replaced(table, name, lambda row, value=value: value)
    keep(folder, table)
    Reader(write_report(folder).read_text(encoding="utf-8"))
    assert (folder / "toy" / "dp_gd.png").exists() == ("axes" not in columns)


# --- the report -----------------------------------------------------------------------------------


def test_written_again_it_is_the_same_to_the_byte(results):
    before = contents(results)
    write_report(results)
    assert contents(results) == before


def test_every_verdict_is_told_in_both(page, readme):
    for text in (page, readme):
        for word in ("true", "wrong", "real", "a9a", "digits", "Title of true", "1 is refuted"):
            assert word in text
    assert page.count('class="mark refuted"') == readme.count("❌") == 2  # headline and section
    assert page.count('class="mark holds"') == readme.count("✅")
    assert re.search(r"\| −0\.\d\d\s\[−0\.\d\d,\s−0\.\d\d\] \| −1 \| ❌ refuted", readme)
    assert "privopt run wrong --profile quick --seed 7" in page
    assert "`privopt run wrong --profile quick --seed 7`" in readme
    assert "Bassily, Smith and Thakurta 2014" in page


def test_the_page_stands_alone(page, results):
    reader = Reader(page)
    assert "script" not in reader.tags
    assert len(reader.ids) == len(set(reader.ids))
    inside = {f"#{name}" for name in reader.ids}
    assert {link for link in reader.links if not link.startswith("data:")} <= inside
    assert sum(link.startswith("data:image/svg+xml") for link in reader.links) == 5
    assert "prefers-color-scheme: dark" in page
    assert str(results) not in page


def test_text_is_escaped(page, readme):
    assert "with <code>code</code> &amp; &lt;signs&gt;." in page
    assert "with `code` & &lt;signs>." in readme
    assert "F* &lt;= R G" in page
    assert r"F\* &lt;= R G" in readme


def test_pictures_of_the_readme_are_there(readme, results):
    linked = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", readme)
    assert len(linked) == 5
    assert all((results / path).is_file() for path in linked)


def test_tables_of_the_readme_have_one_width(readme):
    blocks = re.findall(r"(?:^\|.*\|\n)+", readme, flags=re.MULTILINE)
    assert len(blocks) == 1 + 3 * 3
    for block in blocks:
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in block.splitlines()}) == 1


def test_what_made_it_is_on_the_page_alone_and_may_be_missing(page, readme, results, tmp_path):
    told = ("12.3 s running and 5.7 s compiling for 15 cells (2 reused)", "abacus", "0123456789abc")
    for each in told:
        assert each in page
        assert each not in readme
    copy = open_results(tmp_path / "copy")
    write_recorded(copy / "true", read(results / "true"))
    assert "compiling" not in write_report(copy).read_text(encoding="utf-8")


def test_figures_of_the_same_table_are_not_drawn_again(synthetic, tmp_path, monkeypatch):
    folder = open_results(tmp_path / "results")
    keep(folder, synthetic(**REAL))
    told = []
    write_report(folder, redraw=False, progress=told.append)
    assert told == [Drawing("toy", 1, 1)]
    before = contents(folder)
    with monkeypatch.context() as patch:
        patch.setattr(Figure, "savefig", None)
        write_report(folder, redraw=False)
        with pytest.raises(TypeError):
            write_report(folder)
        (folder / "toy" / "dp_gd.png").unlink()
        with pytest.raises(TypeError):
            write_report(folder, redraw=False)
    write_report(folder)
    assert contents(folder) == before
    keep(folder, synthetic(**REAL, seed=1))
    write_report(folder, redraw=False)
    assert contents(folder)[Path("toy/dp_gd.svg")] != before[Path("toy/dp_gd.svg")]


def test_verdicts_at_hand_are_not_made_again(results, monkeypatch):
    judged = {name: verdicts(read(results / name)) for name in recorded_names(results)}
    before = contents(results)
    monkeypatch.setattr(report, "verdicts", None)
    write_report(results, judged=judged, redraw=False)
    assert contents(results) == before


def test_a_folder_without_tables_is_refused(tmp_path):
    with pytest.raises(ResultsError, match=r"no \.privopt in it"):
        write_report(tmp_path)
    empty = open_results(tmp_path / "empty")
    with pytest.raises(ResultsError, match=r"holds no table yet: run an experiment first"):
        write_report(empty)
    assert not (empty / "README.md").exists()


# --- numbers --------------------------------------------------------------------------------------


def test_numbers_are_plain():
    shown = [number(value) for value in (0.25, 1.0, 16384, 1e-5, 0.0003, math.inf, 320)]
    assert shown == ["0.25", "1", "16,384", "0.00001", "0.0003", "∞", "320"]
    assert [signed(v, 2) for v in (-0.984, 0.5, -0.001)] == ["−0.98", "0.50", "0.00"]
    assert [signed(v) for v in (-1.0, 0.25)] == ["−1", "0.25"]
