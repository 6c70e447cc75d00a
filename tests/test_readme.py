"""The README's examples run as printed."""

import re

import numpy as np
import pandas as pd
from pages import ROOT, blocks, printed, text_of
from typer.testing import CliRunner

from privopt import accounting, privacy
from privopt.cli.commands import app


def run_examples(*numbers):
    """The names that examples define, one after the other: the reader's own copy and paste."""
    examples, names = blocks("README.md"), {}
    assert len(examples) == 4
    for number in numbers:
        printed(examples[number], "README.md", names)
    return names


def test_the_example_runs():
    names = run_examples(0, 1)
    spent = names["plan"].guarantee.epsilon(1e-6)
    assert 0.999 < spent.lower <= spent.upper <= 1.0
    assert names["many"].released.shape == (3, 100, 20)
    np.testing.assert_allclose(names["released"], names["run"].released, rtol=1e-6)
    assert names["problem"].risk(names["streamed"].released) < names["problem"].risk(np.zeros(20))


def test_a_model_from_a_csv(tmp_path, monkeypatch):
    """In at most 12 lines, and it learns."""
    ages = np.tile(np.arange(20, 80), 100)
    frame = pd.DataFrame({"age": ages, "sector": np.where(ages % 2, "private", "public")})
    frame["income"] = np.where(ages > 50, "high", "low")
    frame.to_csv(tmp_path / "people.csv")
    monkeypatch.chdir(tmp_path)
    names = run_examples(2)
    model, features = names["model"], names["table"].features(frame)
    assert model.guarantee_.epsilon(1e-6).upper <= 1.0
    assert model.score(features, frame["income"]) > 0.9
    assert len([line for line in blocks("README.md")[2].code.splitlines() if line]) <= 12


def test_the_accounting_example_runs():
    names = run_examples(3)
    certified, text = names["certified"], text_of("README.md")
    assert f"# [{certified.lower:.4f}, {certified.upper:.4f}]" in text
    assert 2.3806 < certified.lower <= certified.upper < 2.3825
    spent = privacy.epsilon(names["dp_sgd"](names["noise"]), 1e-5, relation="add_or_remove_one")
    assert 1.99 < spent.lower <= 2.0


def test_the_recommendation_is_what_the_command_prints(monkeypatch):
    monkeypatch.chdir(ROOT)
    text = text_of("README.md")
    shown = re.search(r"^\$ privopt (recommend .*?)```", text, re.MULTILINE | re.DOTALL)
    command, *lines = shown[1].splitlines()
    told = CliRunner().invoke(app, command.split()).output.splitlines()
    assert len(lines) == 5
    assert [line for line in lines if line not in told] == []


def test_every_accountant_is_in_the_table():
    text = text_of("README.md")
    kinds = {type(each) for each in (*accounting.ACCOUNTANTS, *accounting.ESTIMATORS)}
    missing = [kind.__name__ for kind in kinds if f"`{kind.__name__}`" not in text]
    assert missing == ["NonPrivate"]


def test_every_link_leads_somewhere():
    text = text_of("README.md")
    links = re.findall(r"\]\((?!https:)([^)#]+)\)", text)
    assert len(links) >= 5
    assert [link for link in links if not (ROOT / link).exists()] == []
