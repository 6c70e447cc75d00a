"""Figures and report: made from the tables alone, reproducible to the byte, and complete."""

import json
import math
import re
from dataclasses import replace
from pathlib import Path

import pandas
import pytest
from matplotlib.figure import Figure
from typer.testing import CliRunner

from privopt.cli.commands import app
from privopt.lab.evaluation.cells import cell_results, cells_along, worst
from privopt.lab.evaluation.verdict import Control, ControlOutcome, Outcome, Verdict
from privopt.lab.evaluation.verdicts import verdicts
from privopt.lab.plotting.notation import in_words, number, signed
from privopt.lab.report import report
from privopt.lab.report.answers import attack_card, best_method_card
from privopt.lab.report.report import write_report
from privopt.lab.runner.store import (
    ResultsError,
    open_results,
    read,
    recorded_names,
    write_provenance,
    write_recorded,
)
from privopt.lab.runner.work import Drawing

SMALL = {
    "axes": {"n": (500, 1000, 2000, 4000), "dim": (8, 16, 32, 64)},
    "replicates": 40,
    "spread": 0.1,
}
ALONG_N = {**SMALL, "axes": {"n": SMALL["axes"]["n"]}}
REAL = {"axes": {"n": (500, 1000, 2000)}, "replicates": 10, "checks": ("bound",)}
PROVENANCE = {"run_seconds": 12.34, "compile_seconds": 5.67, "cells": 15, "reused": 2}
PROVENANCE |= {"environment": {"machine": "abacus"}, "code": "0123456789abcdef" * 4}
PROVENANCE |= {"profile": "quick", "date": "2026-01-31"}


def keep(results, recorded):
    folder = results / recorded.about["name"]
    write_recorded(folder, recorded)
    write_provenance(folder, PROVENANCE)


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


def plain(page):
    """Remove the markup of line breaks."""
    return re.sub(r'<wbr>|<span class="whole">(.*?)</span>', r"\1", page)


def markdown(results):
    """The report of every experiment, the common one first."""
    pages = [results / "README.md", *sorted(results.glob("*/README.md"))]
    return "\n".join(path.read_text(encoding="utf-8") for path in pages)


@pytest.fixture(scope="module")
def readme(results):
    return markdown(results)


def test_one_figure_for_a_method_with_slopes_and_one_for_the_others(results, contents):
    made = {str(path) for path in contents(results) if path.suffix in (".svg", ".png")}
    assert made == {"real/compared.png", "true/dp_gd.png", "wrong/dp_gd.png"}
    for name in made:
        data = (results / name).read_bytes()
        assert int.from_bytes(data[16:20], "big") == 820
        assert b"matplotlib" not in data


@pytest.mark.cases(2)
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
    synthetic, replaced, tmp_path, columns, parsed
):
    folder = open_results(tmp_path / "results")
    table = synthetic(**REAL, strengths=(1.0,), profile_of_strength=(1.0,))
    for name, value in columns.items():
        table = replaced(table, name, lambda row, value=value: value)
    keep(folder, table)
    parsed(write_report(folder).read_text(encoding="utf-8"))
    assert (folder / "toy" / "dp_gd.png").exists() == ("axes" not in columns)


def test_every_verdict_is_in_both(page, readme):
    for text in (page, readme):
        for word in ("true", "wrong", "real", "a9a", "digits", "Title of true"):
            assert word in text
    assert "**3 of 4 exponents hold, 1 refuted; 6 of 6 bounds hold.**" in readme
    assert "<li>3 of 4 exponents hold, 1 refuted</li><li>6 of 6 bounds hold</li>" in page
    row = next(row for row in re.findall(r"<tr id=.*?</tr>", page) if "✗ refuted" in row)
    assert "#wrong" in row
    assert page.count('class="mark bad"') == readme.count("❌") == 1  # every verdict once
    assert page.count('class="mark good"') == readme.count("✅")
    assert re.search(
        r"\| −1<br>± 0\.05 \| −0\.\d\d<br>\[−0\.\d\d,\s−0\.\d\d\] \| ❌ refuted", readme
    )
    assert "Bassily, Smith and Thakurta 2014" in page


def test_a_refuted_item_is_listed_with_its_statement(page, readme):
    statement = r"DP-GD along records\sn: exponent −0\.\d+ \[−0\.\d+,\s−0\.\d+\], theorem −1"
    assert re.search(rf"- \[Wrong\]\(wrong/README\.md\): {statement}", readme)
    assert re.search(rf'<a href="#wrong">Wrong</a>: {statement}', page)


def test_a_row_per_verdict_is_in_the_csv_file(results):
    frame = pandas.read_csv(results / "verdicts.csv")
    every = [verdict for name in recorded_names(results) for verdict in verdicts(results / name)]
    assert [tuple(row) for row in frame[["experiment", "check", "outcome"]].to_numpy()] == [
        (v.experiment, v.check, v.outcome) for v in every
    ]
    slope = frame[(frame["experiment"] == "wrong") & (frame["axis"] == "n")].iloc[0]
    (verdict,) = [v for v in every if (v.experiment, v.axis) == ("wrong", "n")]
    assert (slope["kind"], slope["outcome"], slope["noise off"]) == (
        "exponent",
        "refuted",
        "differs",
    )
    assert slope["estimate"] == pytest.approx(verdict.estimate, rel=1e-5)


def test_the_command_verdicts_computes_the_csv_file_from_the_runs(results, tmp_path):
    folder = open_results(tmp_path / "results")
    for name in recorded_names(results):
        (folder / name).mkdir()
        for file in ("cells.parquet", "runs.parquet"):
            (folder / name / file).write_bytes((results / name / file).read_bytes())
    answer = CliRunner().invoke(app, ["verdicts", "--results", str(folder)])
    assert answer.exit_code == 0
    assert "3 of 4 exponents hold, 1 refuted; 6 of 6 bounds hold." in answer.output
    assert (folder / "verdicts.csv").read_bytes() == (results / "verdicts.csv").read_bytes()


def test_the_page_is_one_file_without_links_to_others(page, results, parsed):
    reader = parsed(page)
    assert reader.tags.count("script") == 2  # the data of the chart, and its code
    assert len(reader.ids) == len(set(reader.ids))
    inside = {f"#{name}" for name in reader.ids} | {"#"}
    images = {link for link in reader.links if not link.startswith("#")}
    assert set(reader.links) - images <= inside
    assert len(images) == 3
    assert all(image.startswith("data:image/png;base64,") for image in images)
    assert "http" not in re.sub(r'"data:[^"]+"', "", page).replace("http-equiv", "")
    assert "prefers-color-scheme: dark" in page
    assert str(results) not in page


def test_answers_come_first_then_the_chart_the_verdicts_and_the_experiments(page):
    order = ("Which theorems scale as proved?", "3 of 4 exponents hold, 1 refuted", "Evidence")
    order += ("Excess risk by method", "How to read the verdicts", "Exponents", "Upper bounds")
    body = page[page.index("<body>") :]
    places = [body.index(each) for each in (*order, 'article id="')]
    assert places == sorted(places)
    for word in ("An exponent is the power", "A verdict is the result of a test"):
        assert word in body[: body.index("Excess risk by method")]


def test_the_chart_has_every_mean_and_bound_of_a_sweep(page, results):
    data = re.search(r'<script id="series" type="application/json">(.*?)</script>', page)[1]
    series = {(each["problem"], each["axis"]): each for each in json.loads(data)}
    chart = series["True: linear", "records\N{NO-BREAK SPACE}n"]
    (method,) = chart["methods"]
    assert method["name"] == "DP-GD"
    groups = cells_along(cell_results(read(results / "true")), "n")
    expected = [(value, worst(same)) for value, same in groups.items()]
    for (value, cell), point, bound in zip(
        expected, method["points"], method["bound"], strict=True
    ):
        assert point[:2] == pytest.approx([value, cell.mean], rel=1e-3)
        assert point[2] < cell.mean < point[3]
        assert bound == pytest.approx([value, cell.upper], rel=1e-3)


def series(name, points, **changes):
    at = {"name": name, "colour": "#000000", "tuned": False, "points": points, "bound": []}
    return at | changes


def test_the_best_method_has_the_least_mean_or_ties_where_something_is_learnt():
    methods = [
        series("DP-GD", [[0.1, 2.0, 1.9, 2.1], [1.0, 0.2, 0.1, 0.3], [4.0, 0.1, 0.09, 0.11]]),
        series("DP-SGD", [[0.1, 1.5, 1.4, 1.6], [1.0, 0.3, 0.29, 0.4], [4.0, 0.2, 0.19, 0.21]]),
        series("NoisyAdam", [[4.0, 0.01, None, None]], tuned=True),
    ]
    problem = {
        "problem": "Toy: one", "axis": "privacy\N{NO-BREAK SPACE}ε", "label": "excess risk",
        "private": True, "zero": [[0.1, 1.0], [1.0, 1.0], [4.0, 1.0]], "methods": methods,
    }  # fmt: skip
    card = best_method_card([problem])
    assert "DP-GD: it has the least mean excess risk" in card.answer
    assert "at 2 of the 2 settings to which it applies, ε from 1 to 4" in card.answer
    assert "next is DP-SGD at 1 of 2" in card.answer  # at 0.1 nothing beats the zero predictor
    assert best_method_card([problem | {"private": False}]) is None
    assert best_method_card([]) is None


def test_the_strongest_attack_is_named_with_its_share_of_the_guarantee():
    parts = {part: {"ratio": 2.0} for part in ("weakened", "forgotten")}
    audits = [{"name": "dp_gd", "runs": 1000, "attack": {"ratio": 0.9}, **parts}]
    audits.append(audits[0] | {"name": "dp_sgd", "attack": {"ratio": 0.95}})
    card = attack_card(audits)
    assert card.answer == ("No. The strongest of 2 attacks reaches 0.95 of the guarantee (DP-SGD).")
    assert "2 of 2 attacks exceed it" in card.details[0]
    beaten = attack_card([audits[0] | {"attack": {"ratio": 1.2}}])
    assert beaten.answer == "Yes: DP-GD 1.20."


def test_the_readme_starts_with_a_recorded_comparison(results, tmp_path):
    folder = open_results(tmp_path / "results")
    for name in ("cells", "runs"):
        path = folder / "true" / f"{name}.parquet"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes((results / "true" / f"{name}.parquet").read_bytes())
    (folder / "compare_logistic.png").write_bytes((results / "true" / "dp_gd.png").read_bytes())
    write_report(folder)
    readme = (folder / "README.md").read_text(encoding="utf-8")
    picture, caption = readme.index("(compare_logistic.png)"), readme.index("nine methods")
    assert picture > caption  # in the alternative text
    assert "privopt compare logistic --axis epsilon --n 2000 --dim 20" in readme
    assert readme.index("Which theorems scale as proved?") < picture < readme.index("## ")


def test_figures_have_captions_and_numbers_as_alternative_text(page, parsed):
    reader = parsed(page)
    assert len(reader.pictures) == reader.tags.count("figcaption") == 3
    compared, first, wrong = reader.pictures
    for each in (first, wrong):
        assert re.search(
            r"records\sn 500 to 4,000: mean 0\.0\d+ to 0\.0\d+ \(upper bound 0\.", each
        )
    assert re.search(r"slope along records\sn −1\.0\d [^;]*, theorem −1, holds", first)
    assert re.search(r"slope along records\sn −0\.\d+ [^;]*, theorem −1, refuted", wrong)
    assert re.search(r"on a9a at records\sn = 2,000: DP-GD \d+%, other \d+%", compared)


DECLARATION = """
from privopt.lab import Axis, Experiment, Setting

experiment = Experiment(
    name="toy", title="Toy", description="", algorithms={"dp_gd": {}}, families=("linear",),
    base=Setting(n=100, dim=2, epsilon=1.0), axes=(Axis("n", (100, 200)),),
    replicates={"quick": 5, "full": 5}, relation="replace_one", delta=1e-6,
)
"""


def test_a_declaration_that_is_there_is_linked(synthetic, tmp_path):
    folder = open_results(tmp_path / "results")
    keep(folder, synthetic(**REAL))
    (tmp_path / "experiments").mkdir()
    (tmp_path / "experiments" / "toy.py").write_text(DECLARATION)
    page = write_report(folder).read_text(encoding="utf-8")
    assert "<code>experiments/<wbr>toy.py</code>" in page
    assert "privopt run toy --profile quick --seed 7" in plain(page)
    readme = (folder / "toy" / "README.md").read_text(encoding="utf-8")
    assert "[experiments/toy.py](../../experiments/toy.py)" in readme


SLOPE = Verdict(
    experiment="toy",
    method="best",
    family="linear",
    check="slope",
    axis="n",
    outcome=Outcome.HOLDS,
    estimate=-0.98,
    lower=-1.01,
    upper=-0.96,
    target=-1.0,
    detail="4 values",
    margin=0.05,
    power=0.931,
    wrong=(0.021, 0.0001),
    controls=(
        Control("noise off", ControlOutcome.DIFFERS, "", 0.04, 0.03, 0.05),
        Control("noise bent", ControlOutcome.UNDECIDED, "", -0.89, -0.91, -0.87),
    ),
    second=Control("second key", ControlOutcome.AGREES, "", -0.97, -1.02, -0.92),
    bound_slope=-1.003,
    drift=1.07,
    regime="in 12 of 12 cells",
    untuned=True,
)
THEORYS = replace(
    SLOPE, method="dp_gd", outcome=Outcome.INHERITED, estimate=-1.002, untuned=False, detail="x"
)


@pytest.fixture(scope="module")
def twins(synthetic, replaced, tmp_path_factory):
    """A results folder of a method with the best of a grid beside its twin at theory's numbers."""
    folder = open_results(tmp_path_factory.mktemp("twins") / "results")
    axes = {"n": (500, 1000, 2000, 4000)}
    table = synthetic(axes=axes, methods=("dp_gd", "best"), replicates=40, spread=0.01)
    searched = {"chosen": {"steps": 64}, "at_edge": [], "candidates": 4}

    def search(row):
        steps = 64 if row["n"] < 4000 else 128
        found = searched | {"chosen": {"steps": steps}, "at_edge": ["steps"] * (steps > 64)}
        return json.dumps(found) if row["method"] == "best" else None

    table = replaced(table, "searched", search)
    table = replaced(
        table, "value", lambda row: row["value"] * (0.5 if row["method"] == "best" else 1.0)
    )
    keep(folder, table)
    write_report(folder, judged={"toy": [replace(SLOPE, at_theory=THEORYS)]})
    return folder


def test_a_row_of_slopes_tells_all_that_could_have_made_it_fail(twins):
    readme = (twins / "README.md").read_text(encoding="utf-8")
    (row,) = [
        line for line in readme.splitlines() if line.startswith("| [Toy]") and "−0.98" in line
    ]
    entries = [entry.strip().replace("\N{NO-BREAK SPACE}", " ") for entry in row.split("|")[1:-1]]
    assert entries == [
        "[Toy](toy/README.md)<br>best (oracle-tuned) on linear",
        "records n",
        "−1<br>± 0.05",
        "−0.98<br>[−1.01, −0.96]",
        "✅ holds",
        "✅ differs<br>0.04",
        "❔ undecided<br>−0.89",
        "✅ agrees<br>−0.97",
        "93 % if right<br>2 % if 0.05 off, &lt; 1 % if 0.1 off",
        "−1.00<br>drift 1.07",
        "⚠️ inherited −1.00<br>[−1.01, −0.96]",
    ]
    page = (twins / "index.html").read_text(encoding="utf-8")
    for text in ("✓ differs", "≡ inherited −1.00", "? undecided", "✓ agrees"):
        assert text in page
    assert "oracle-tuned: steps the best of 4" in page
    assert 'd="M-0.20 0H0.80"' in page  # the interval, in margins from the exponent


def test_the_cost_of_theorys_hyperparameters_is_given_with_the_choices(twins):
    readme = (twins / "README.md").read_text(encoding="utf-8")
    row = (
        readme[readme.index("## Cost of theory’s hyperparameters") :]
        .split("\n| [")[1]
        .splitlines()[0]
    )
    named, ratio, chosen, edge = (entry.strip() for entry in f"[{row}".split("|")[:-1])
    assert named == "[Toy](toy/README.md)<br>DP-GD and best (oracle-tuned) on linear"
    low, high = map(float, ratio.split("\N{NO-BREAK SPACE}to\N{NO-BREAK SPACE}"))
    assert 1.97 < low <= high < 2.03
    assert (chosen, edge) == ("steps 64 to 128", "1 of 4")


def test_twins_are_drawn_in_one_figure(twins, parsed):
    assert not (twins / "toy" / "best.png").exists()
    assert (twins / "toy" / "dp_gd.png").exists()
    page = parsed((twins / "index.html").read_text(encoding="utf-8"))
    assert {"oracle-tuned, slope along" in alt for alt in page.pictures} == {True}


def test_a_verdict_prints_in_words_whatever_is_known_of_it():
    assert str(SLOPE) == (
        "best (oracle-tuned) on linear, slope in n: -0.98 [-1.01, -0.96], theorem -1: holds "
        "(4 values); noise off 0.04: differs; noise bent -0.89: undecided"
    )
    assert repr([SLOPE]) == f"[<Verdict {SLOPE}>]"


def test_a_caption_says_where_the_zero_predictor_is_at_least_as_good(synthetic, replaced, tmp_path):
    folder = open_results(tmp_path / "results")
    keep(folder, replaced(synthetic(**ALONG_N), "start_value", lambda row: 1e-4))
    write_report(folder)
    readme = (folder / "toy" / "README.md").read_text(encoding="utf-8")
    assert (
        "At 4 of 4 settings the zero predictor, which uses no data, is at least as good" in readme
    )


def test_names_of_experiments_are_converted_to_words():
    assert [in_words(name) for name in ("dp_ftrl", "dp_ftrl_noises", "default_dp_sgd")] == [
        "DP-FTRL", "DP-FTRL noises", "Default DP-SGD",
    ]  # fmt: skip


def test_text_is_escaped(page, readme):
    assert "with <code>code</code> &amp; &lt;signs&gt;." in page
    assert "with `code` & &lt;signs>." in readme
    assert "F* &lt;= R G" in page
    assert r"F\* &lt;= R G" in readme


def test_links_of_every_readme_lead_to_files(results):
    pages = [results / "README.md", *results.glob("*/README.md")]
    assert len(pages) == 4
    pictures = 0
    for path in pages:
        links = re.findall(r"(!?)\[[^\]]+\]\(([^)]+)\)", path.read_text(encoding="utf-8"))
        pictures += sum(sign == "!" for sign, _ in links)
        assert all((path.parent / link).is_file() for _, link in links)
    assert pictures == 3


def test_tables_of_the_readme_have_one_width(readme):
    blocks = re.findall(r"(?:^\|.*\|\n)+", readme, flags=re.MULTILINE)
    assert len(blocks) == 2 + 3 * 2  # on top; of every experiment bounds and plans
    for block in blocks:
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in block.splitlines()}) == 1


def test_what_made_it_is_on_the_page_alone_and_may_be_missing(page, readme, results, tmp_path):
    provenance = ("2026-01-31", "12.3 s", "5.7 s", "15, 2 reused", "abacus", "0123456789ab")
    for each in provenance:
        assert each in page
        assert each not in readme
    assert page.count("quick profile") == 3
    assert readme.count("profile: quick") == 3
    copy = open_results(tmp_path / "copy")
    write_recorded(copy / "true", read(results / "true"))
    page = write_report(copy).read_text(encoding="utf-8")
    assert "compiling" not in page
    assert "abacus" not in page


def test_figures_of_the_same_table_are_not_drawn_again(synthetic, tmp_path, monkeypatch, contents):
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
    path = folder / "toy" / "dp_gd.png"
    path.unlink()
    write_report(folder, redraw=False)
    assert contents(folder) == before
    keep(folder, synthetic(**REAL, seed=1))
    write_report(folder, redraw=False)
    assert contents(folder)[Path("toy/dp_gd.png")] != before[Path("toy/dp_gd.png")]


def test_verdicts_at_hand_are_not_made_again(results, monkeypatch, contents):
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


def test_numbers_are_plain():
    shown = [number(value) for value in (0.25, 1.0, 16384, 1e-5, 0.0003, math.inf, 320)]
    assert shown == ["0.25", "1", "16,384", "0.00001", "0.0003", "∞", "320"]
    assert [signed(v, 2) for v in (-0.984, 0.5, -0.001)] == ["−0.98", "0.50", "0.00"]
    assert [signed(v) for v in (-1.0, 0.25)] == ["−1", "0.25"]
