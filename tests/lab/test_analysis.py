"""Analyses: declaration, runs of parts, claims, listings, figures and charts."""

import io
import math
import re
from collections import deque
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from refusals import refused

from privopt import lab
from privopt.accounting import Approximation
from privopt.lab import (
    Analysis,
    Chart,
    Claim,
    Experiment,
    Listing,
    ResultsError,
    at_most,
    below,
    close,
    load,
    plotting,
    read,
    verdicts,
    write_report,
)
from privopt.lab.evaluation.verdicts import outcomes
from privopt.lab.plotting.panels import describe
from privopt.lab.report.answers import chart_series
from privopt.lab.report.sections import listing_table
from privopt.lab.runner.analysis import frames
from privopt.lab.runner.catalogue import Declarations
from privopt.lab.runner.store import open_results, read_provenance, write_provenance, write_recorded
from privopt.lab.runner.work import Note, Started
from privopt.privacy import Interval

ROOT = Path(__file__).parents[2]
CALLS = deque()  # the contents of a list would count as settings of the parts


def squares(profile):
    """Yield intervals, and a quantity that is in order for one of them only."""
    CALLS.append("squares")
    for x in range(3 if profile == "quick" else 6):
        yield {
            "label": f"x\n= {x}",
            "x": x,
            "claimed": 1.5 * x,
            "square": Interval(x * x + 0.01, x * x + 0.02),
        }


def names(profile):
    """Yield rows with other columns; one value is missing."""
    CALLS.append("names")
    yield {"name": "one", "size": 1.0}
    yield {"name": "<two>", "size": None}


def curve_figure(frames):
    """Squares and a wrong claim."""
    figure, panels = plotting.panels("A curve", "linear", "logarithmic")
    panels[1].set(xscale="log", yscale="log")
    for axes in panels:
        axes.set(xlabel="x", ylabel="y")
        plotting.curve(axes, frames["squares"], "x", "square", label="square")
        plotting.curve(
            axes, frames["squares"], "x", "claimed", label="claimed", color="C1", marker="o"
        )
    return figure


def named_figure(frames):
    """Sizes by name."""
    figure, (axes,) = plotting.panels("By name")
    plotting.curve(axes, frames["names"], "name", "size", label="size")
    return figure


GIVEN = {
    "name": "demo",
    "title": "A demonstration",
    "description": "Squares & lines.",
    "parts": {"squares": squares, "names": names},
    "claims": (
        Claim("never negative", "squares", at_most("x", "square")),
        Claim("too small, except for one", "squares", below("claimed", "square"), rows=2),
    ),
    "figures": {"curve": curve_figure, "named": named_figure},
    "listings": (
        Listing(
            "squares",
            "All squares",
            {"x": "{label}", "square": "{square:.1f}", "a bound?": "{claimed:g}"},
            checks={"a bound?": at_most("square", "claimed")},
        ),
        Listing("names", "All names", {"name": "{name}", "size": "{size:+.1f}"}),
    ),
}


def analysis(**changes):
    return Analysis(**{**GIVEN, **changes})


def run(results, declared=None, profile="quick"):
    events = []
    declared = declared or analysis()
    result = lab.run(declared, profile=profile, seed=0, results=results, progress=events.append)
    return result, events


def run_verdicts(results, declared):
    return verdicts(run(results, declared)[0].folder, [declared])


def giving(*rows):
    def part(profile):
        yield from rows

    return part


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """A results folder with one analysis and its report."""
    folder = tmp_path_factory.mktemp("analysis") / "results"
    run(folder)
    write_report(folder, experiments=[analysis()])
    return folder


# --- declaration ----------------------------------------------------------------------------------

test_a_bad_declaration_is_refused = refused(
    ({"name": "Demo"}, "name must be of small letters, digits and underscores, got 'Demo'"),
    ({"parts": {}}, "parts must name at least one part, got none"),
    ({"parts": {"a b": squares}}, "name of a part must be of small letters"),
    ({"claims": (Claim("c", "cubes", below("x", "y")),)}, "part must be one of squares, names"),
    ({"listings": (Listing("cubes", "l", {"x": "{x}"}),)}, "got 'cubes'"),
    ({"charts": (Chart("p", "cubes", "x"),)}, "got 'cubes'"),
    ({"figures": {"../p": curve_figure}}, "name of a figure must be of small letters"),
    of=analysis,
)

test_a_bad_member_is_refused = refused(
    (lambda: close("a", "b", -1.0), "within must be non-negative and finite, got -1.0"),
    (lambda: close("a", "b", math.nan), "within must be non-negative and finite, got nan"),
    (lambda: Listing("p", "l", {"x": "{a:.3q}"}), "column 'x' must have a format .* '.3q' for a"),
    (lambda: Listing("p", "l", {"x": "{a:%d}"}), "column 'x' must have a format .* '%d' for a"),
    (lambda: Listing("p", "l", {}, {"x": below("a", "b")}), "head of a check must be one of"),
)


def test_an_analysis_is_loaded_like_any_experiment(tmp_path):
    path = tmp_path / "demo.py"
    path.write_text(
        "from privopt.lab import Analysis\n"
        "def part(profile):\n    yield {'x': 1}\n"
        "experiment = Analysis(name='demo', title='t', description='d', parts={'part': part})\n"
    )
    (loaded_one,) = load(path)
    assert isinstance(loaded_one, Analysis)
    assert run(tmp_path / "results", loaded_one)[0].cells == 1
    path.write_text(path.read_text().replace("'x': 1", "'x': 2"))  # another file, another part
    again, events = run(tmp_path / "results", *load(path))
    assert again.reused == 0
    assert isinstance(events[0], Note)
    assert read(again.folder).runs["x"].to_pylist() == [2]


def test_names_are_read_from_the_source_without_running_it(tmp_path):
    (tmp_path / "many.py").write_text(
        "raise SystemExit\n"
        "def analysis(data, **texts):\n    return Analysis(**texts)\n"
        "one = analysis([each for each in (1, 2)], name='one')\n"
        "two = lab.Analysis(title='t', name='two')\n"
        "three = replace(two, name='three')\n"
    )
    (tmp_path / "bare.py").write_text("experiment = None\n")
    (tmp_path / "broken.py").write_text("experiment = (\n")
    assert list(Declarations(tmp_path).paths) == ["bare", "broken", "one", "two", "three"]


def test_an_analysis_can_have_one_profile():
    assert analysis().profiles == ("quick", "full")
    assert analysis(profiles=("full",)).profiles == ("full",)
    with pytest.raises(ValueError, match=r"profile must be one of .*, got 'slow'"):
        analysis(profiles=("slow",))


def loaded(name, family="accounting"):
    (experiment,) = load(ROOT / "experiments" / family / f"{name}.py")
    return experiment


CHEAP = ("tables", "figure_4", "figure_3_errors", "figure_a1", "figure_a1_epsilon")


@pytest.mark.parametrize(
    ("name", "claims"), [("gaussian_dp_accounting", 6), ("gaussian_dp_curves", 3)]
)
def test_claims_of_cheap_parts_hold(tmp_path, name, claims):
    experiment = loaded(name)
    parts = {part: function for part, function in experiment.parts.items() if part in CHEAP}
    kept = tuple(claim for claim in experiment.claims if claim.part in parts)
    cheap = replace(experiment, parts=parts, claims=kept, figures={}, listings=(), charts=())
    assert [each.outcome for each in run_verdicts(tmp_path, cheap)] == ["holds"] * claims


def test_every_experiment_is_found_by_its_name():
    names = list(Declarations(ROOT / "experiments").paths)
    every = [each for path in lab.discover(ROOT / "experiments") for each in load(path)]
    assert [each.name for each in every] == names
    assert len(set(names)) == len(names)
    assert {type(each) for each in every} == {Experiment, Analysis}


# --- runs and tables ------------------------------------------------------------------------------


def test_recorded_rows_keep_their_part(results):
    recorded = read(results / "demo", [analysis()])
    assert recorded.is_analysis
    assert recorded.cells.column_names == ["cell", "experiment", "part", "profile"]
    assert recorded.cells["part"].to_pylist() == ["squares", "names"]
    tables = frames(recorded)
    assert tables["squares"]["square_lower"].tolist() == [0.01, 1.01, 4.01]
    assert tables["squares"]["square_upper"].tolist() == [0.02, 1.02, 4.02]
    assert tables["squares"]["x"].tolist() == [0, 1, 2]
    assert tables["names"]["name"].tolist() == ["one", "<two>"]
    assert tables["names"]["size"].isna().tolist() == [False, True]
    assert tables["names"]["x"].isna().all()
    about = recorded.about
    assert (about["title"], about["profile"]) == ("A demonstration", "quick")
    assert read_provenance(results / "demo")["cells"] == 2


def test_a_finished_analysis_computes_nothing_and_writes_the_same_bits(tmp_path, tables):
    before = tables(run(tmp_path)[0])
    CALLS.clear()
    result, events = run(tmp_path)
    assert not CALLS
    assert events == [Started("demo", total=2, reused=2)]
    assert tables(result) == before


def test_another_claim_reruns_nothing(tmp_path):
    run(tmp_path)
    claim = Claim("x is small", "squares", lambda frame: frame.x < 2)
    result, _ = run(tmp_path, analysis(claims=(claim,), title="Another title", figures={}))
    assert result.reused == 2
    (verdict,) = verdicts(result.folder, [analysis(claims=(claim,))])
    assert (verdict.outcome, verdict.estimate) == ("refuted", 2)


def test_the_date_is_that_of_the_last_computed_part(tmp_path):
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
    assert len(frames(read(result.folder))["squares"]) == 6
    with pytest.raises(ValueError, match="profile must be one of quick, full, got 'slow'"):
        run(tmp_path / "results", profile="slow")


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
        (({"x": 1},), "claim 'never negative' cannot be checked in part squares: .* got 'square'"),
        (({"x": 1.0, "square": 1.0, "claimed": 2.0, "size": "s", "label": "l"},), "one kind"),
    ],
)
def test_rows_that_make_no_table_are_refused(tmp_path, rows, message):
    with pytest.raises(ValueError, match=message):
        run(tmp_path, analysis(parts={"squares": giving(*rows), "names": names}))
    assert not list((tmp_path / "demo").glob("*.parquet"))


def test_numbers_of_numpy_are_numbers(tmp_path):
    rows = ({"x": np.int64(1), "y": np.float64(0.5), "z": np.float32(0.25)}, {"x": 2, "y": 1})
    declared = Analysis(name="n", title="", description="", parts={"p": giving(*rows)})
    runs = read(run(tmp_path, declared)[0].folder).runs.select(["x", "y", "z"]).to_pylist()
    assert runs == [{"x": 1, "y": 0.5, "z": 0.25}, {"x": 2, "y": 1.0, "z": None}]


def test_a_part_can_be_defined_outside_a_file(tmp_path):
    def run_source(source):
        namespace = {"__name__": "__main__"}  # a cell of a notebook
        exec(source, namespace)
        bare = {"claims": (), "figures": {}, "listings": ()}
        result, _ = run(tmp_path, analysis(parts={"p": namespace["part"]}, **bare))
        return result.reused, read(result.folder).runs["x"].to_pylist()

    source = "def value():\n    return 1\ndef part(profile):\n    yield {'x': value()}"
    assert [run_source(source), run_source(source)] == [(0, [1]), (1, [1])]
    assert run_source(source.replace("return 1", "return 2")) == (0, [2])


def test_a_table_without_its_declaration_raises_a_clear_error(results):
    with pytest.raises(ResultsError, match=r"demo has claims .* pass the folder"):
        verdicts(results / "demo")
    with pytest.raises(ResultsError, match="demo has claims and figures in its declaration"):
        read(results / "demo").plot()
    assert len(read(results / "demo").frame()) == 5


def test_a_part_without_its_data_is_omitted_with_its_claims_figures_and_listings(
    tmp_path, monkeypatch
):
    monkeypatch.delenv("PRIVOPT_DATA", raising=False)
    declared = analysis(part_data={"names": ("mnist",)})
    result, _ = run(tmp_path, declared)
    assert result.cells == 1
    recorded = read(result.folder, [declared])
    assert list(frames(recorded)) == ["squares"]
    assert len(verdicts(recorded)) == 2
    write_report(tmp_path, experiments=[declared])
    assert sorted(path.name for path in result.folder.glob("*.png")) == ["curve.png"]
    assert "All names" not in (result.folder / "README.md").read_text(encoding="utf-8")
    claim = Claim("c", "names", below("size", "size"))
    assert len(verdicts(read(result.folder, [analysis(claims=(claim,))]))) == 0


# --- claims ---------------------------------------------------------------------------------------

LOW, HIGH = {"a": 1.0, "b_lower": 2.0, "b_upper": 3.0}, {"a": 4.0, "b_lower": 2.0, "b_upper": 3.0}
AMONG, EDGE = {"a": 2.5, "b_lower": 2.0, "b_upper": 3.0}, {"a": 2.0, "b_lower": 2.0, "b_upper": 3.0}


@pytest.mark.parametrize(
    ("check", "row", "expected"),
    [
        (below("a", "b"), LOW, "holds"),
        (below("a", "b"), HIGH, "refuted"),
        (below("a", "b"), AMONG, "undecided"),
        (below("a", "b"), EDGE, "undecided"),
        (at_most("a", "b"), EDGE, "holds"),
        (at_most("b", "a"), LOW, "refuted"),
        (at_most("b", "a"), EDGE, "undecided"),
        (below("b", "a"), EDGE, "refuted"),
        (below("b", "a"), AMONG, "undecided"),
        (at_most("b", "a"), HIGH, "holds"),
        (close("a", "b", 2.0), LOW, "holds"),
        (close("b", "a", 2.0), LOW, "holds"),
        (close("a", "b", 1.5), LOW, "undecided"),
        (close("a", "b", 0.5), LOW, "refuted"),
        (close("a", "b", 0.5), HIGH, "refuted"),
        (close("a", "a"), LOW, "holds"),
        (below("a", "b"), {**LOW, "a": None}, "undecided"),
        (below("a", "b"), {**LOW, "b_upper": math.nan}, "undecided"),
        (below("a", "b"), {**LOW, "a": "one"}, "undecided"),
        (below("a", "b"), {"a": 1.0, "b": math.inf}, "holds"),
        (close("a", "b", 1.0), {"a": math.inf, "b": math.inf}, "undecided"),
        (below("a", "b"), {**LOW, "b": None}, "holds"),  # null if another part has the column
        (lambda frame: frame.a < 2, LOW, "holds"),
        (lambda frame: frame.a > 2, LOW, "refuted"),
    ],
)
def test_a_check_uses_the_less_favourable_end_of_an_interval(check, row, expected):
    assert outcomes(Claim("c", "p", check), pd.DataFrame([row])) == [expected]


@pytest.mark.parametrize(
    ("check", "message"),
    [
        (lambda frame: frame.nothing < 2, "claim 'c' cannot be checked in part p: .*nothing"),
        (below("a", "nothing"), "got 'nothing'"),
        (lambda frame: True, "check must return a mask of 1 rows, got True"),
        (lambda frame: pd.Series([True, False]), "mask of 1 rows"),
    ],
)
def test_a_check_that_cannot_be_evaluated_is_refused(check, message):
    with pytest.raises((ValueError, AttributeError), match=message):
        outcomes(Claim("c", "p", check), pd.DataFrame([LOW]))


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
def test_a_claim_holds_in_its_number_of_rows(tmp_path, values, rows, expected, held):
    part = giving(*({"label": f"at\n{x}", "x": x, "one": 1.0} for x in values))
    claim = Claim("c", "p", below("x", "one"), rows)
    declared = Analysis(name="n", title="", description="", parts={"p": part}, claims=(claim,))
    (verdict,) = run_verdicts(tmp_path, declared)
    assert (verdict.outcome, verdict.estimate, verdict.rows) == (expected, held, len(values))
    assert verdict.target == (len(values) if rows is None else rows)
    assert ("at 2" in verdict.detail) == (2 in values)


def test_a_long_list_of_labels_is_cut(tmp_path):
    part = giving(*({"x": 2.0, "one": 1.0} for _ in range(9)))
    claim = Claim("c", "p", below("x", "one"))
    declared = Analysis(name="n", title="", description="", parts={"p": part}, claims=(claim,))
    (verdict,) = run_verdicts(tmp_path, declared)
    assert verdict.detail == "not in row 1, row 2, row 3, row 4 and 5 more"


ONE_ABOVE = [{"label": f"r{i}", "x": i, "bound": 1.5} for i in range(3)]  # r2 contradicts the claim


@pytest.mark.parametrize(
    ("repeated", "outcome", "text"),
    [
        ([{"label": "r2", "x": 1}], "holds", "with a fresh key: holds in 1 of 1 rows, holds"),
        ([{"label": "r2", "x": 2}], "refuted", "with a fresh key: holds in 0 of 1 rows, refuted"),
        ([{"label": "r2", "x": None}], "undecided", "holds in 0 of 1 rows, undecided"),
        ([{"label": "r1", "x": 1}], "undecided", "r2 not repeated"),
        (None, "undecided", "not yet repeated"),
    ],
)
def test_a_claim_with_a_false_alarm_is_refuted_only_by_two_measurements(
    tmp_path, repeated, outcome, text
):
    again = Claim("again", "again", at_most("x", "bound"))
    parts = {"p": giving(*ONE_ABOVE), "other": names}
    if repeated:
        parts["again"] = giving(*(row | {"bound": 1.5} for row in repeated))
    claim = Claim("c", "p", at_most("x", "bound"), again=again if repeated else None)
    declared = analysis(parts=parts, claims=(claim,), figures={}, listings=())
    folder = run(tmp_path, declared)[0].folder
    declared = replace(
        declared,
        parts={**parts, "again": names},
        claims=(replace(claim, again=again),),
    )
    (verdict,) = verdicts(folder, [declared])
    assert (verdict.outcome, verdict.estimate, verdict.rows) == (outcome, 2, 3)
    assert verdict.detail.startswith("not in r2; ")
    assert text in verdict.detail


def test_a_claim_that_holds_is_not_repeated(tmp_path):
    again = Claim("again", "again", at_most("x", "bound"))
    claim = Claim("c", "p", at_most("x", "bound"), again=again)
    wrong = {"label": "r0", "x": 9, "bound": 1.5}
    parts = {"p": giving(*ONE_ABOVE[:2]), "again": giving(wrong)}
    declared = analysis(parts=parts, claims=(claim,), figures={}, listings=())
    (verdict,) = run_verdicts(tmp_path, declared)
    assert (verdict.outcome, verdict.detail) == ("holds", "")


def test_the_columns_of_a_repeated_claim_are_checked(tmp_path):
    again = Claim("again", "again", at_most("y", "bound"))
    claim = Claim("c", "p", at_most("x", "bound"), again=again)
    parts = {"p": giving(*ONE_ABOVE), "again": giving(*ONE_ABOVE)}
    declared = analysis(parts=parts, claims=(claim,), figures={}, listings=())
    with pytest.raises(ValueError, match="cannot be checked in part again"):
        run(tmp_path, declared)
    with pytest.raises(ValueError, match="part must be one of"):
        analysis(claims=(replace(GIVEN["claims"][0], again=again),))


def test_every_claim_with_a_stated_false_alarm_is_repeated():
    claims = [
        claim
        for path in lab.discover(ROOT / "experiments")
        for each in load(path)
        if isinstance(each, Analysis)
        for claim in each.claims
        if "false alarm" in claim.text
    ]
    assert claims
    assert all(claim.again is not None for claim in claims)


# --- figures --------------------------------------------------------------------------------------


def drawn(frame, x="x", **quantities):
    """Return the axes of a figure with one panel."""

    def figure():
        result, (axes,) = plotting.panels("P", "name")
        axes.set(xlabel="x", ylabel="y")
        for quantity, options in quantities.items():
            plotting.curve(axes, frame, x, quantity, label=quantity, **options)
        return result

    return plotting.draw(figure)


def test_the_description_has_the_ends_of_every_line():
    frame = pd.DataFrame(
        {
            "x": [1, 2, 3, 4],
            "whole": [5.0, 6.0, 7.0, 8.0],
            "middle": [None, 2.0, math.inf, 4.0],
            "once": [3.0, math.nan, None, None],
            "none": [None] * 4,
        }
    )
    figure = drawn(frame, whole={}, middle={}, once={}, none={})
    assert describe(figure) == ("P: y against x: whole 5 to 8, middle 2 to 4, once 3, none unknown")
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [
        "whole", "middle", "once", "none",
    ]  # fmt: skip


def test_an_estimate_is_inside_its_band_and_an_interval_has_its_upper_end():
    frame = pd.DataFrame(
        {"x": x, "mean": 2.0 + x, "err_lower": 1.0 + x, "err_upper": 3.0 + x} for x in range(3)
    )
    for quantity, options, expected in (
        ("mean", {"band": "err"}, [2.0, 3.0, 4.0]),
        ("err", {}, [3.0, 4.0, 5.0]),
    ):
        (axes,) = drawn(frame, **{quantity: options}).axes
        (line,), (band,) = axes.get_lines(), axes.collections
        assert line.get_ydata().tolist() == expected
        (path,) = band.get_paths()
        assert path.get_extents().extents.tolist() == [0.0, 1.0, 2.0, 5.0]


def test_ticks_of_narrow_panels_do_not_touch():
    """Labels at 1, 2 and 5 between 100 and 10,000 have 30 letters, too many for a narrow panel."""
    frame = pd.DataFrame({"x": [100.0, 1000.0, 10_000.0], "y": 1.0})
    shown = {}
    for count in (1, 3):

        def figure(count=count):
            result, panels = plotting.panels("P", *map(str, range(count)))
            for axes in panels:
                axes.set_xscale("log")
                plotting.curve(axes, frame, "x", "y", label="y")
            return result

        axes = plotting.draw(figure).axes[0]
        low, high = axes.get_xlim()
        shown[count] = [tick for tick in axes.get_xticks() if low <= tick <= high]
    assert shown == {1: [100, 200, 500, 1000, 2000, 5000, 10_000], 3: [100, 1000, 10_000]}


@pytest.mark.cases(3)
@pytest.mark.parametrize("x", ["x", "y", "text", "never"])
@pytest.mark.parametrize("scale", ["linear", "log"])
def test_figures_survive_numbers_that_no_scale_can_show(x, scale):
    values = (math.inf, -math.inf, math.nan, 0.0, -1.0, None, 1e-300)
    frame = pd.DataFrame(
        {"label": "l", "x": 1.0, "y": value, "text": "t", "never": None} for value in values
    )

    def figure():
        result, (axes,) = plotting.panels("")
        axes.set(yscale=scale)
        if x != "text":
            axes.set(xscale=scale)
        for name in ("y", "never", "text"):
            plotting.curve(axes, frame, x, name, label=name)
        return result

    plotting.draw(figure).savefig(io.BytesIO())


def test_panels_without_a_place_are_removed():
    figure, axes = plotting.panels("title", "a", "b", "c", "d")
    assert figure.axes == axes
    assert len(axes) == 4


ROWS = [
    {"n": 10, "epsilon": 0.5, "won": "first", "text": "first\n× 2"},
    {"n": 1000, "epsilon": 0.5, "won": "second", "text": "second\n× 3"},
    {"n": 1000, "epsilon": 4.0, "won": "tie", "text": "first\n≈ second"},
    {"n": 10, "epsilon": 4.0, "won": "first", "text": "first\n× 5"},
]


def mapped(rows):
    _, (axes,) = plotting.panels("")
    plotting.winner_map(
        axes, pd.DataFrame(rows), "n", "epsilon", winner="won", text="text",
        names=("first", "second"),
    )  # fmt: skip
    filled = [patch for patch in axes.patches if patch.get_fill()]
    return axes, {patch.get_xy(): patch.get_facecolor()[:3] for patch in filled}


def test_a_map_has_a_cell_with_a_text_for_every_row():
    axes, cells = mapped(ROWS)
    assert set(cells) == {(0, 0), (1, 0), (1, 1), (0, 1)}
    texts = {text.get_position(): text.get_text() for text in axes.texts}
    assert texts[0.5, 0.5] == "first\n× 2"
    assert texts[1.5, 1.5] == "first\n≈ second"
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["10", "1,000"]
    assert [tick.get_text() for tick in axes.get_yticklabels()] == ["0.5", "4"]


def test_a_winner_has_one_colour_in_any_order_of_rows_and_a_tie_is_grey():
    _, cells = mapped(ROWS)
    _, reversed_cells = mapped(ROWS[::-1])
    assert cells == reversed_cells
    assert cells[0, 0] == cells[0, 1]
    assert len({cells[0, 0], cells[1, 0], cells[1, 1]}) == 3


# --- report ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (",.2f", "−1.24 to 2,345.68"), (".3g", "−1.24 to 2.35e+3"), (".1e", "−1.3e+0 to 2.4e+3"),
        ("d", "−2 to 2346"), ("", "−2 to 2346"),
    ],
)  # fmt: skip
def test_an_interval_has_the_format_of_a_number_and_is_rounded_outwards(spec, expected):
    listing = Listing("p", "l", {"x": f"{{a:{spec}}}"})
    table = listing_table(listing, pd.DataFrame([{"a_lower": -1.234, "a_upper": 2345.671}]))
    assert table.rows == ((expected,),)


def test_the_report_depends_on_tables_and_declarations_only(results, tmp_path, contents):
    before = contents(results)
    copy = open_results(tmp_path / "copy")
    (copy / "demo").mkdir()
    for name in ("cells.parquet", "runs.parquet", "provenance.json"):
        (copy / "demo" / name).write_bytes((results / "demo" / name).read_bytes())
    write_report(copy, experiments=[analysis()])
    made = {path: data for path, data in before.items() if "cells" not in path.parts}
    assert contents(copy) == made
    assert {path.name for path in made} >= {"curve.png", "named.png", "README.md", "verdicts.csv"}


def test_the_report_has_claims_listings_and_captions(results, parsed):
    page = (results / "index.html").read_text(encoding="utf-8")
    pages = (results / "README.md", results / "demo" / "README.md")
    readme = "\n".join(path.read_text(encoding="utf-8") for path in pages)
    parsed(page)
    assert readme.count("**2 of 2 claims hold.**") == 2  # in the overview and on the page
    row = "| too small, except for one | 2 of 3, 2 claimed | ✅ holds<br>not in x = 1 |"
    assert readme.count(row) == 1
    assert "| x = 1 | 1.0 to 1.1 | ✅ 1.5 |" in readme  # rounded outwards
    assert "| x = 2 | 4.0 to 4.1 | ❌ 3 |" in readme
    assert "| one | +1.0 |" in readme
    assert "| &lt;two> | – |" in readme
    assert "&lt;two&gt;" in page
    assert "*Squares and a wrong claim.*" in readme  # the docstring of the function
    assert "square 0.02 to 4.02, claimed 0 to 3" in readme  # alternative text
    assert "privopt.lab.run(experiment, profile=&#39;quick&#39;" in page
    assert page.count("<img ") == 2
    assert "method | family" not in readme  # no table of theorems without a verdict on one


def test_a_report_has_sweeps_and_analyses(synthetic, tmp_path):
    folder = open_results(tmp_path / "results")
    run(folder)
    table = synthetic(axes={"n": (500, 1000)}, replicates=10, checks=("bound",))
    write_recorded(folder / "toy", table)
    page = write_report(folder, experiments=[analysis()])
    readme = (page.parent / "README.md").read_text(encoding="utf-8")
    assert "**1 of 1 bounds hold; 2 of 2 claims hold.**" in readme


def test_a_chart_has_the_methods_of_the_columns(tmp_path):
    rows = [
        {
            "epsilon": epsilon, "zero": 1.0, "dp_gd": 0.5 / epsilon, "dp_gd_best": 0.4 / epsilon,
            "dp_gd_bound": 2.0 / epsilon, "dp_gd_risk": Interval(0.4 / epsilon, 0.6 / epsilon),
            "dp_gd_sparse": 0.3, "other": 1.0, "output": None,
        }
        for epsilon in (1.0, 2.0)
    ]  # fmt: skip
    chart = Chart("means", "p", "epsilon", band="risk", variants={"dp_gd_sparse": "projected"})
    declared = Analysis(
        name="n", title="", description="", parts={"p": giving(*rows)}, charts=(chart,)
    )
    recorded = read(run(tmp_path, declared)[0].folder, [declared])
    (series,) = chart_series([recorded])
    methods = {each["name"]: each for each in series["methods"]}
    assert sorted(methods) == ["DP-GD", "DP-GD (oracle-tuned)", "projected"]
    assert methods["DP-GD"]["points"] == [[1.0, 0.5, 0.4, 0.6], [2.0, 0.25, 0.2, 0.3]]
    assert methods["DP-GD"]["bound"] == [[1.0, 2.0], [2.0, 1.0]]
    assert series["zero"] == [[1.0, 1.0], [2.0, 1.0]]
