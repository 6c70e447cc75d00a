"""The README's examples print the shown output.

``PYTHONPATH=tests python tests/test_readme.py`` writes the printed table of ``privopt compare``.
"""

import re

import pytest
from pages import ROOT, blocks, code_lines, printed, text_of
from typer.testing import CliRunner

from privopt.algorithms import ALGORITHMS
from privopt.cli.commands import app

README = "README.md"
COMMAND = re.compile(r"^\$ privopt (compare (?:[^\n]*\\\n)*[^\n]*)\n(.*?)^```", re.M | re.S)


def command():
    """Return the arguments of ``privopt compare`` and the lines that the README shows."""
    match = COMMAND.search(text_of(README))
    return match[1].replace("\\\n", " ").split(), match[2].splitlines()


def test_the_readme_is_short():
    text = text_of(README)
    assert len(text.splitlines()) <= 150
    assert len(text.split()) <= 900


def test_the_example_prints_the_shown_output():
    (example,) = blocks(README)
    assert printed(example, README, {}) == example.output
    assert len(code_lines(example)) <= 15


@pytest.mark.thorough  # as pages that compare; numbers and tables are tested one by one
def test_the_command_prints_the_table(tmp_path, monkeypatch):
    """The README omits lines after the sentence that names the winner."""
    monkeypatch.chdir(tmp_path)
    arguments, lines = command()
    output = CliRunner().invoke(app, arguments).stdout
    assert len(lines) > 5
    assert "\n".join(lines) in output


@pytest.mark.parametrize("name", sorted(ALGORITHMS))
def test_every_algorithm_is_in_the_table(name):
    assert f"| `{name}` |" in text_of(README)


def test_every_link_has_a_target():
    links = re.findall(r"\]\((?!https:)([^)#]+)[^)]*\)", text_of(README))
    assert len(links) >= 5
    assert [link for link in links if not (ROOT / link).exists()] == []


if __name__ == "__main__":
    arguments, lines = command()
    output = CliRunner().invoke(app, arguments).stdout
    table = output[output.rindex("Excess risk") :]  # the first one is a preview
    table = re.split(r"\nFitted exponents", table)[0]
    text = text_of(README).replace("\n".join(lines), table)
    (ROOT / README).write_text(text, encoding="utf-8")
