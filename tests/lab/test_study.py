"""Studies: declared, computed part by part, judged by their claims, shown from the table alone."""

import io
import json
import math
import re
from collections import deque
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from refusals import refused
from rich.console import Console

from privopt import lab
from privopt.accounting import Approximation
from privopt.lab import (
    Claim,
    Column,
    Experiment,
    Line,
    Listing,
    Panel,
    Plot,
    ResultsError,
    Study,
    existing_results,
    load,
    read,
    verdict_table,
    verdicts,
    write_report,
)
from privopt.lab.evaluation.claims import evaluate_check, presentation, rows_of
from privopt.lab.plotting.plots import plot_figure
from privopt.lab.report.captions import plot_caption
from privopt.lab.report.sections import listing_table
from privopt.lab.runner.analysis import Presentation
from privopt.lab.runner.catalogue import declared
from privopt.lab.runner.store import open_results, read_provenance, write_provenance, write_recorded
from privopt.lab.runner.work import Note, Started
from privopt.privacy import Interval

ROOT = Path(__file__).parents[2]
CALLS = deque()  # not a list, whose contents would count as settings of the parts


def squares(profile):
    """Exact values in intervals, beside a claim that is wrong for one of them."""
    CALLS.append("squares")
    for x in range(3 if profile == "quick" else 6):
        yield {
            "label": f"x\n= {x}",
            "x": x,
            "claimed": 1.5 * x,
            "square": Interval(x * x + 0.01, x * x + 0.02),
        }


def names(profile):
    """Another part with other columns, one of them sometimes null."""
    CALLS.append("names")
    yield {"name": "one", "size": 1.0}
    yield {"name": "<two>", "size": None}


PANEL = Panel(
    part="squares",
    x="x",
    x_label="x",
    y_label="y",
    lines=(Line("square", "square"), Line("claimed", "claimed", "orange", "points")),
)
GIVEN = {
    "name": "demo",
    "title": "A demonstration",
    "description": "Squares & lines.",
    "parts": {"squares": squares, "names": names},
    "claims": (
        Claim("never negative", "squares", "x <= square"),
        Claim("too small, but once", "squares", "claimed < square", rows=2),
    ),
    "plots": (
        Plot("curve", "A curve", PANEL, replace(PANEL, log="xy", title="logs")),
        Plot("named", "By name", replace(PANEL, part="names", x="name", lines=())),
    ),
    "listings": (
        Listing(
            "squares",
            "All squares",
            Column("x", "{label}"),
            Column("square", "{square:.1f}"),
            Column("a bound?", "{claimed:g}", "square <= claimed"),
        ),
        Listing("names", "All names", Column("name", "{name}"), Column("size", "{size:+.1f}")),
    ),
}


def study(**changes):
    return Study(**{**GIVEN, **changes})


def run(results, declared=None, profile="quick"):
    events = []
    declared = declared or study()
    result = lab.run(declared, profile=profile, seed=0, results=results, progress=events.append)
    return result, events


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """A results folder with one study and its report."""
    folder = tmp_path_factory.mktemp("study") / "results"
    run(folder)
    write_report(folder)
    return folder


NOWHERE = "a < b"


@pytest.mark.parametrize("spec", [".3q", "2.f", "%d"])
def test_a_column_refuses_a_format_that_no_value_takes(spec):
    with pytest.raises(ValueError, match=f"text of column 'x' must be a format .* '{spec}' for a"):
        Column("x", f"{{a:{spec}}}")


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        (".2f", "−1.24 to 2,345.68"), (".3g", "−1.24 to 2.35e+3"), (".1e", "−1.3e+0 to 2.4e+3"),
        ("d", "−2 to 2346"), ("", "−2 to 2346"),
    ],
)  # fmt: skip
def test_an_interval_takes_the_format_of_a_number_and_is_rounded_outwards(spec, told):
    spec = f",{spec}" if spec == ".2f" else spec
    listing = Listing("p", "l", Column("x", f"{{a:{spec}}}"))
    table = listing_table(listing, [{"a_lower": -1.234, "a_upper": 2345.671}])
    assert table.rows == ((told,),)


def test_a_line_is_told_from_where_it_is_known():
    lines = tuple(Line(name, name) for name in ("whole", "middle", "once", "none"))
    plot = Plot("p", "P", replace(PANEL, lines=lines))
    rows = [
        {"x": 1, "whole": 5.0, "middle": None, "once": 3.0},
        {"x": 2, "whole": 6.0, "middle": 2.0, "once": math.nan},
        {"x": 3, "whole": 7.0, "middle": math.inf, "once": None},
        {"x": 4, "whole": 8.0, "middle": 4.0, "once": None},
    ]
    _, alt = plot_caption(plot, Presentation(plots=(plot,)), (), {"squares": rows})
    assert alt == "P: y, x 1 to 4: whole 5 to 8, middle 2 to 4, once 3, none unknown"


test_a_bad_declaration_is_refused = refused(
    ({"name": "Demo"}, "name must be of small letters, digits and underscores, got 'Demo'"),
    ({"parts": {}}, "parts must name at least one part, got none"),
    ({"parts": {"a b": squares}}, "name of a part must be of small letters"),
    ({"claims": (Claim("c", "cubes", NOWHERE),)}, "part must be one of squares, names, got 'c"),
    ({"listings": (Listing("cubes", "l", Column("x", "{x}")),)}, "got 'cubes'"),
    ({"plots": (Plot("../p", "p"),)}, "name of a plot must be of small letters"),
    ({"plots": (Plot("p", ""), Plot("p", ""))}, "plots must have distinct names"),
    of=study,
)


test_a_bad_piece_is_refused = refused(
    (lambda: Claim("c", "p", "a > b"), "relation must be one of <, <=, =, got '>'"),
    (lambda: Claim("c", "p", "a <b"), "check must read like 'risk <= bound' .* got 'a <b'"),
    (lambda: Claim("c", "p", "a = b ± -1.0"), "within must be non-negative and finite, got -1.0"),
    (lambda: Claim("c", "p", "a = b ± nan"), "within must be non-negative and finite, got nan"),
    (lambda: Line("a", "a", "pink"), "colour must be one of blue, .* got 'pink'"),
    (lambda: Line("a", "a", style="wavy"), "style must be one of line, .* got 'wavy'"),
    (lambda: replace(PANEL, log="z"), "log must be one of x, y, xy, got 'z'"),
)


def test_what_is_shown_survives_json():
    declared = study().shown
    assert Presentation.from_json(json.loads(json.dumps(declared.to_json()))) == declared
    assert ("squares", "square") in set(declared.quantities())
    assert ("names", "size") in set(declared.quantities())


def test_a_study_is_found_like_any_experiment(tmp_path):
    path = tmp_path / "demo.py"
    path.write_text(
        "from privopt.lab import Study\n"
        "def part(profile):\n    yield {'x': 1}\n"
        "experiment = Study(name='demo', title='t', description='d', parts={'part': part}, "
        "claims=())\n"
    )
    (found,) = load(path)
    assert isinstance(found, Study)
    assert run(tmp_path / "results", found)[0].cells == 1
    path.write_text(path.read_text().replace("'x': 1", "'x': 2"))  # another file, another part
    again, events = run(tmp_path / "results", *load(path))
    assert again.reused == 0
    assert isinstance(events[0], Note)
    assert read(again.folder).runs["x"].to_pylist() == [2]


def test_rows_come_back_with_where_they_came_from(results):
    recorded = read(results / "demo")
    assert recorded.is_study
    assert recorded.cells.column_names == ["cell", "experiment", "part", "profile"]
    assert recorded.cells["part"].to_pylist() == ["squares", "names"]
    rows = rows_of(recorded)
    assert [row["square_lower"] for row in rows["squares"]] == [0.01, 1.01, 4.01]
    assert [row["square_upper"] for row in rows["squares"]] == [0.02, 1.02, 4.02]
    assert [row["name"] for row in rows["names"]] == ["one", "<two>"]
    assert [row["size"] for row in rows["names"]] == [1.0, None]
    assert rows["names"][0]["x"] is None
    about = recorded.about
    assert (about["title"], about["profile"]) == ("A demonstration", "quick")
    assert presentation(recorded) == study().shown
    assert read_provenance(results / "demo")["cells"] == 2


def test_a_finished_study_computes_nothing_and_writes_the_same_bits(tmp_path, tables):
    before = tables(run(tmp_path)[0])
    CALLS.clear()
    result, events = run(tmp_path)
    assert not CALLS
    assert events == [Started("demo", total=2, reused=2)]
    assert tables(result) == before


def test_the_date_is_of_the_part_that_was_made_last(tmp_path):
    result, _ = run(tmp_path)
    written = read_provenance(result.folder)
    today, long_ago = written["date"], "2020-01-31"
    assert re.fullmatch(r"20\d\d-[01]\d-[0-3]\d", today)
    write_provenance(result.folder, {**written, "date": long_ago})
    run(tmp_path)
    assert read_provenance(result.folder)["date"] == long_ago
    next((result.folder / "cells").glob("*.parquet")).unlink()
    run(tmp_path)
    assert read_provenance(result.folder)["date"] > long_ago


def test_the_profile_reaches_the_parts(tmp_path):
    result, _ = run(tmp_path / "results", profile="full")
    assert len(rows_of(read(result.folder))["squares"]) == 6
    with pytest.raises(ValueError, match="profile must be one of quick, full, got 'slow'"):
        run(tmp_path / "results", profile="slow")


def giving(*rows):
    def part(profile):
        yield from rows

    return part


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ((), "part squares must give at least one row, got none"),
        (({"x": True},), "x of squares must be a number, a text, None or an Interval, got True"),
        (
            ({"x": Approximation(1.0, "CLT")},),
            "x of squares must be a number.* got .* type Approximation",
        ),
        (({"x": [1]},), r"x of squares must be a number.* got an object of type list"),
        (({"part": 1},), "quantity of squares must not be one of cell, experiment, part,.*: part"),
        (({"A b": 1},), "quantity of squares must be of small letters"),
        (({"x": 1}, {"x": "one"}), "one kind"),
        (({"x": 1},), "quantity must be one that part squares gives, got 'square'"),
        (({"x": 1.0, "square": 1.0, "claimed": 2.0, "size": "s", "label": "l"},), "one kind"),
    ],
)
def test_rows_that_make_no_table_are_refused(tmp_path, rows, message):
    with pytest.raises(ValueError, match=message):
        run(tmp_path, study(parts={"squares": giving(*rows), "names": names}))
    assert not list((tmp_path / "demo").glob("*.parquet"))


def test_numbers_of_numpy_are_numbers(tmp_path):
    rows = ({"x": np.int64(1), "y": np.float64(0.5), "z": np.float32(0.25)}, {"x": 2, "y": 1})
    declared = Study(name="n", title="", description="", parts={"p": giving(*rows)}, claims=())
    found = read(run(tmp_path, declared)[0].folder).runs.select(["x", "y", "z"]).to_pylist()
    assert found == [{"x": 1, "y": 0.5, "z": 0.25}, {"x": 2, "y": 1.0, "z": None}]


def test_a_part_need_not_stand_in_a_file(tmp_path):
    def found(source):
        namespace = {"__name__": "__main__"}  # a cell of a notebook
        exec(source, namespace)
        bare = {"claims": (), "plots": (), "listings": ()}
        result, _ = run(tmp_path, study(parts={"p": namespace["part"]}, **bare))
        return result.reused, read(result.folder).runs["x"].to_pylist()

    source = "def value():\n    return 1\ndef part(profile):\n    yield {'x': value()}"
    assert [found(source), found(source)] == [(0, [1]), (1, [1])]
    assert found(source.replace("return 1", "return 2")) == (0, [2])


LOW, HIGH = {"a": 1.0, "b_lower": 2.0, "b_upper": 3.0}, {"a": 4.0, "b_lower": 2.0, "b_upper": 3.0}
AMONG, EDGE = {"a": 2.5, "b_lower": 2.0, "b_upper": 3.0}, {"a": 2.0, "b_lower": 2.0, "b_upper": 3.0}


@pytest.mark.parametrize(
    ("check", "row", "expected"),
    [
        ("a < b", LOW, "holds"),
        ("a < b", HIGH, "refuted"),
        ("a < b", AMONG, "undecided"),
        ("a < b", EDGE, "undecided"),
        ("a <= b", EDGE, "holds"),
        ("b <= a", LOW, "refuted"),
        ("b <= a", EDGE, "undecided"),
        ("b < a", EDGE, "refuted"),
        ("b < a", AMONG, "undecided"),
        ("b <= a", HIGH, "holds"),
        ("a = b ± 2.0", LOW, "holds"),
        ("b = a ± 2.0", LOW, "holds"),
        ("a = b ± 1.5", LOW, "undecided"),
        ("a = b ± 0.5", LOW, "refuted"),
        ("a = b ± 0.5", HIGH, "refuted"),
        ("a = a", LOW, "holds"),
        ("a < b", {**LOW, "a": None}, "undecided"),
        ("a < b", {**LOW, "b_upper": math.nan}, "undecided"),
        ("a < b", {**LOW, "a": "one"}, "undecided"),
        ("a < b", {"a": 1.0, "b": math.inf}, "holds"),
        ("a < b", {**LOW, "b": None}, "holds"),  # null where another part has one
    ],
)
def test_a_check_takes_the_less_favourable_end(check, row, expected):
    assert evaluate_check(check, row) == expected


@pytest.mark.parametrize(
    ("values", "rows", "expected", "held"),
    [
        ((0, 0, 0), None, "holds", 3),
        ((0, 2, 0), None, "refuted", 2),
        ((0, None, 0), None, "undecided", 2),
        ((0, None, 2), None, "refuted", 1),
        ((0, 2, 2), 1, "holds", 1),
        ((0, 0, 2), 1, "refuted", 2),
        ((2, 2, 2), 1, "refuted", 0),
        ((0, None, 2), 1, "undecided", 1),
        ((0, None, 2), 2, "undecided", 1),
        ((2, None, 2), 2, "refuted", 0),
        ((2, 2), 0, "holds", 0),
    ],
)
def test_a_claim_holds_in_as_many_rows_as_it_says(tmp_path, values, rows, expected, held):
    part = giving(*({"label": f"at\n{x}", "x": x, "one": 1.0} for x in values))
    claim = Claim("c", "p", "x < one", rows)
    declared = Study(name="n", title="", description="", parts={"p": part}, claims=(claim,))
    (found,) = verdicts(read(run(tmp_path, declared)[0].folder))
    assert (found.outcome, found.estimate, found.rows) == (expected, held, len(values))
    assert found.target == (len(values) if rows is None else rows)
    assert ("at 2" in found.detail) == (2 in values)


def test_a_long_list_of_places_is_cut(tmp_path):
    part = giving(*({"x": 2.0, "one": 1.0} for _ in range(9)))
    claim = Claim("c", "p", "x < one")
    declared = Study(name="n", title="", description="", parts={"p": part}, claims=(claim,))
    (found,) = verdicts(read(run(tmp_path, declared)[0].folder))
    assert found.detail == "not in row 1, row 2, row 3, row 4 and 5 more"


def test_a_study_may_belong_to_one_profile_alone():
    part = giving({"x": 1.0})
    declared = Study(name="n", title="", description="", parts={"p": part}, claims=())
    assert declared.profiles == ("quick", "full")
    assert replace(declared, profiles=("full",)).profiles == ("full",)
    with pytest.raises(ValueError, match=r"profile must be one of .*, got 'slow'"):
        replace(declared, profiles=("slow",))


def test_an_estimate_is_drawn_in_the_middle_of_its_band():
    rows = [{"x": x, "mean": 2.0 + x, "err_lower": 1.0 + x, "err_upper": 3.0 + x} for x in range(3)]
    estimate = Line("mean", "a mean", band="err")
    certified = Line("err", "an interval")
    for line, expected in ((estimate, [2.0, 3.0, 4.0]), (certified, [3.0, 4.0, 5.0])):
        panel = replace(PANEL, part="p", lines=(line,))
        (place, *_) = plot_figure(Plot("f", "f", panel), {"p": rows}).axes
        (curve,), (band,) = place.get_lines(), place.collections
        assert curve.get_ydata().tolist() == expected
        (path,) = band.get_paths()
        assert path.get_extents().extents.tolist() == [0.0, 1.0, 2.0, 5.0]


def test_the_curve_of_a_sampled_mean_is_the_mean():
    """Of a study that draws at random: no line of it is the end of a band."""
    for plot in loaded("along_the_run", "streams").plots:
        for panel in plot.panels:
            banded = [line for line in panel.lines if line.quantity != "bound"]
            assert [line.band for line in banded] == [f"{line.quantity}_band" for line in banded]


def test_ticks_of_narrow_panels_leave_room_for_each_other():
    """Between 100 and 10,000, labels at 1, 2 and 5 take 30 letters: too many beside two others."""
    rows = [{"x": 10.0**k, "y": 1.0} for k in (2, 3, 4)]
    panel = replace(PANEL, part="p", x="x", lines=(Line("y", "y"),), log="x")
    shown = {}
    for panels in (1, 3):
        (place, *_) = plot_figure(Plot("f", "f", *(panel,) * panels), {"p": rows}).axes
        low, high = place.get_xlim()
        shown[panels] = [tick for tick in place.get_xticks() if low <= tick <= high]
    assert shown == {1: [100, 200, 500, 1000, 2000, 5000, 10_000], 3: [100, 1000, 10_000]}


def test_the_report_is_made_from_the_table_alone_and_the_same_to_the_byte(
    results, tmp_path, contents
):
    before = contents(results)
    copy = open_results(tmp_path / "copy")
    (copy / "demo").mkdir()
    for name in ("cells.parquet", "runs.parquet", "provenance.json"):
        (copy / "demo" / name).write_bytes((results / "demo" / name).read_bytes())
    write_report(copy)
    made = {path: data for path, data in before.items() if "cells" not in path.parts}
    assert contents(copy) == made
    assert {path.name for path in made} >= {"curve.png", "named.png", "README.md", "verdicts.csv"}


def test_claims_and_listings_are_told(results, parsed):
    page = (results / "index.html").read_text(encoding="utf-8")
    pages = (results / "README.md", results / "demo" / "README.md")
    readme = "\n".join(path.read_text(encoding="utf-8") for path in pages)
    parsed(page)
    assert readme.count("**2 of 2 claims hold.**") == 2  # on top, and of the study
    row = "| too small, but once | 2 of 3, 2 claimed | ✅ holds<br>not in x = 1 |"
    assert readme.count(row) == 1
    assert "| x = 1 | 1.0 to 1.1 | ✅ 1.5 |" in readme  # rounded outwards
    assert "| x = 2 | 4.0 to 4.1 | ❌ 3 |" in readme
    assert "| one | +1.0 |" in readme
    assert "| &lt;two> | – |" in readme
    assert "&lt;two&gt;" in page
    assert "privopt.lab.run(experiment, profile=&#39;quick&#39;" in page
    assert page.count("<img ") == 2
    assert "method | family" not in readme  # no verdict on a theorem, no table of them


def test_sweeps_and_studies_stand_in_one_report(synthetic, tmp_path):
    folder = open_results(tmp_path / "results")
    run(folder)
    table = synthetic(axes={"n": (500, 1000)}, replicates=10, checks=("bound",))
    write_recorded(folder / "toy", table)
    readme = (write_report(folder).parent / "README.md").read_text(encoding="utf-8")
    assert "**1 of 1 bounds hold; 2 of 2 claims hold.**" in readme
    judged = (verdicts(read(folder / name)) for name in ("demo", "toy"))
    console = Console(width=200, file=io.StringIO())
    console.print(verdict_table([verdict for found in judged for verdict in found]))
    printed = console.file.getvalue()
    for words in ("Upper bounds", "Claims", "too small, but once", "2 of 3", "linear"):
        assert words in printed


def strange(profile):
    """Numbers that no scale can show."""
    for value in (math.inf, -math.inf, math.nan, 0.0, -1.0, None, 1e-300):
        yield {"label": "l", "x": 1.0, "y": value, "text": "t", "never": None}


@pytest.mark.parametrize("x", ["x", "y", "text", "never"])
def test_figures_survive_numbers_that_no_scale_can_show(tmp_path, x, parsed):
    lines = (Line("y", "y"), Line("never", "never", style="points"), Line("text", "text"))
    panel = Panel(part="p", x=x, x_label="", y_label="", lines=lines)
    panels = tuple(replace(panel, log=log) for log in ("", "x", "y", "xy"))
    listing = Listing("p", "l", Column("y", "{y:.2f}"), Column("never", "{never:.1f}"))
    declared = Study(
        name="n", title="", description="", parts={"p": strange}, claims=(),
        plots=(Plot("p", "", *panels),), listings=(listing,),
    )  # fmt: skip
    run(tmp_path, declared)
    parsed(write_report(tmp_path).read_text(encoding="utf-8"))
    assert (tmp_path / "n" / "p.png").exists()


def test_a_table_of_another_version_says_what_to_do(tmp_path, results):
    recorded = read(results / "demo")
    recorded.about["study"]["plots"][0]["frame"] = "gold"
    folder = open_results(tmp_path / "results")
    write_recorded(folder / "demo", recorded)
    with pytest.raises(ResultsError, match=r"demo were written by another version.*again"):
        write_report(existing_results(folder))


def loaded(name, family="accounting"):
    (found,) = load(ROOT / "experiments" / family / f"{name}.py")
    return found


CHEAP = ("tables", "figure_4", "figure_3_errors", "figure_a1", "figure_a1_epsilon")


@pytest.mark.parametrize(
    ("name", "claims"), [("gaussian_dp_accounting", 6), ("gaussian_dp_curves", 3)]
)
def test_the_claims_hold(tmp_path, name, claims):
    declared = loaded(name)
    parts = {part: function for part, function in declared.parts.items() if part in CHEAP}
    kept = tuple(claim for claim in declared.claims if claim.part in parts)
    cheap = replace(declared, parts=parts, claims=kept, plots=(), listings=())
    found = verdicts(read(run(tmp_path, cheap)[0].folder))
    assert [each.outcome for each in found] == ["holds"] * claims


def test_every_experiment_is_found_by_its_name():
    there = declared(ROOT / "experiments")
    found = [each for path in lab.discover(ROOT / "experiments") for each in load(path)]
    assert [each.name for each in found] == [name for name, _ in there]
    assert len({each.name for each in found}) == len(found)
    assert {type(each) for each in found} == {Experiment, Study}
