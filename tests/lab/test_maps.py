"""Maps of winners: every place is a cell, whose colour and text say who won there."""

import pytest
from matplotlib.figure import Figure

from privopt.lab import Claim, Line, Map, Panel, Plot, Study, read, run, write_report
from privopt.lab.plotting.heatmaps import draw_map
from privopt.lab.runner.analysis import Presentation

MAP = Map(
    part="winners", x="n", y="epsilon", x_label="n", y_label="ε", winner="won", text="told",
    names=("first", "second"), title="who",
)  # fmt: skip
ROWS = [
    {"n": 10, "epsilon": 0.5, "won": "first", "told": "first\n× 2"},
    {"n": 1000, "epsilon": 0.5, "won": "second", "told": "second\n× 3"},
    {"n": 1000, "epsilon": 4.0, "won": "tie", "told": "first\n≈ second"},
    {"n": 10, "epsilon": 4.0, "won": "first", "told": "first\n× 5"},
]


def drawn(rows):
    place = Figure().subplots()
    draw_map(place, MAP, rows)
    filled = [patch for patch in place.patches if patch.get_fill()]
    return place, {patch.get_xy(): patch.get_facecolor()[:3] for patch in filled}


def test_every_row_is_one_cell_with_its_text():
    place, cells = drawn(ROWS)
    assert set(cells) == {(0, 0), (1, 0), (1, 1), (0, 1)}
    texts = {text.get_position(): text.get_text() for text in place.texts}
    assert texts[0.5, 0.5] == "first\n× 2"
    assert texts[1.5, 1.5] == "first\n≈ second"
    assert [tick.get_text() for tick in place.get_xticklabels()] == ["10", "1,000"]
    assert [tick.get_text() for tick in place.get_yticklabels()] == ["0.5", "4"]


def test_a_name_has_one_colour_in_whatever_order_it_comes_and_a_tie_is_of_none():
    _, cells = drawn(ROWS)
    _, turned = drawn(ROWS[::-1])
    assert cells == turned
    assert cells[0, 0] == cells[0, 1]
    assert len({cells[0, 0], cells[1, 0], cells[1, 1]}) == 3


def test_a_place_that_is_no_number_is_refused_by_name():
    with pytest.raises(ValueError, match="epsilon of a map must be a number, got None"):
        drawn([ROWS[0] | {"epsilon": None}])


def test_a_map_and_a_panel_come_back_from_json_as_they_were():
    line = Line("n", "records")
    panel = Panel(part="winners", x="n", x_label="", y_label="", lines=(line,))
    show = Presentation(plots=(Plot("who", "Who?", MAP, panel),))
    assert Presentation.from_json(show.to_json()) == show
    assert {("winners", name) for name in ("n", "epsilon", "won", "told")} <= {*show.quantities()}


def test_a_study_with_a_map_is_run_drawn_and_told(tmp_path):
    study = Study(
        name="contest",
        title="Who wins?",
        description="",
        parts={"winners": lambda profile: iter(ROWS)},
        claims=(Claim("no epsilon is larger than n", "winners", "epsilon < n"),),
        plots=(Plot("who", "Who wins?", MAP),),
    )
    folder = run(study, profile="quick", seed=0, results=tmp_path / "results").folder
    assert read(folder).runs.num_rows == len(ROWS)
    write_report(tmp_path / "results")
    assert (folder / "who.png").is_file()
    assert "Who wins?" in (folder / "README.md").read_text(encoding="utf-8")
