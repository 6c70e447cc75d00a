"""Tests of the scripts in ``examples`` and the code of the skill file: they print valid output."""

import contextlib
import io
import re
import runpy
import warnings

import pytest
from pages import ROOT, blocks, printed, text_of
from selection import few

import privopt

MOST_LINES = 30  # of code
SKILL = "privopt/SKILL.md"


def numbers(pattern, output):
    """Return the groups of every match as numbers."""
    return [tuple(map(float, match.groups())) for match in re.finditer(pattern, output)]


def own_loss(output):
    """The risk is below the bound, and falls with epsilon."""
    pairs = numbers(r"excess risk ([\d.]+), bound ([\d.]+)", output)
    ((zero,),) = numbers(r"zero predictor: ([\d.]+)", output)
    risks = [risk for risk, _ in pairs]
    assert len(pairs) == 3
    assert all(risk < bound for risk, bound in pairs)
    assert risks == sorted(risks, reverse=True)
    assert risks[0] < zero


def own_algorithm(output):
    assert output.startswith("unit_descent: passed\n")
    assert output.count("\nok ") == 9


def cluster(output):
    """Both workers end without an error, and the risk falls with epsilon."""
    assert "exit codes: [0, 0]" in output
    rows = numbers(r"\n(\d\.\d) +(\d+) +([\d.]+)", output)
    (_, runs, private), (_, _, less_private) = rows
    assert runs == 100
    assert less_private < private


def accounting(output):
    """The accountants are ordered, and noise falls with epsilon."""
    ((lower, upper),) = numbers(r"between ([\d.]+) and ([\d.]+)", output)
    (renyi,), (moments,) = numbers(r"at most ([\d.]+)", output)
    assert lower <= upper <= renyi <= moments
    assert "(CLT)" in output
    noise = numbers(r"noise multiplier for epsilon [\d.]+: ([\d.]+)", output)
    assert len(noise) == 3
    assert noise == sorted(noise, reverse=True)


def estimator(output):
    """Epsilon is within the budget, and the largest one learns the rule."""
    pairs = numbers(r"epsilon +([\d.]+): test accuracy ([\d.]+)", output)
    assert len(pairs) == 3
    assert all(epsilon <= most for (epsilon, _), most in zip(pairs, (0.1, 1, 10), strict=True))
    assert pairs[-1][1] > 0.95


CHECKS = {
    check.__name__: check for check in (own_loss, own_algorithm, cluster, accounting, estimator)
}


# One starts workers, as test_engines.py does; the others do what a page of the guide does.
COSTLY = {"cluster", "own_algorithm", "own_loss"}


@pytest.mark.parametrize("name", few(CHECKS, CHECKS.keys() - COSTLY))
def test_a_script_prints_a_meaningful_result(name, registry):
    with contextlib.redirect_stdout(io.StringIO()) as out, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a script goes on, and tells them to stderr
        runpy.run_path(str(ROOT / "examples" / f"{name}.py"), run_name="__main__")
    CHECKS[name](out.getvalue())


def test_every_script_is_short_and_checked():
    scripts = {path.stem: path for path in (ROOT / "examples").glob("*.py")}
    assert scripts.keys() == CHECKS.keys()
    lines = {
        name: sum(bool(line.strip()) for line in path.read_text(encoding="utf-8").splitlines())
        for name, path in scripts.items()
    }
    assert max(lines.values()) <= MOST_LINES, lines


@pytest.mark.thorough  # as the pages, in test_pages.py
def test_the_skill_file_prints_the_shown_output():
    names: dict = {}
    assert len(blocks(SKILL)) == 3
    for block in blocks(SKILL):
        assert printed(block, SKILL, names) == block.output


def test_the_skill_file_is_short_and_names_what_exists():
    text = text_of(SKILL)
    assert len(text.splitlines()) <= 100
    assert re.match(r"---\nname: privopt\ndescription: [^\n]+\n---\n", text)
    used = set(re.findall(r"privopt\.(\w+)", text))
    assert {name for name in used if not hasattr(privopt, name)} == set()
