"""Agreement of the citations of plans with the bibliography file."""

import re
from itertools import chain
from pathlib import Path

import pytest
from builders import CHOICES, DIM, N

from privopt import ALGORITHMS, Budget, ProblemClass, accounting, bibliography

PACKAGE = Path(bibliography.__file__).parent
RESPONDENTS = (*accounting.ACCOUNTANTS, *accounting.ESTIMATORS)
BUDGET = Budget(epsilon=1.0, delta=1e-5, relation="replace_one")


def cited_in_prose():
    """Return keys of papers cited in a docstring or source by authors and year."""
    text = bibliography._plain(
        " ".join(file.read_text(encoding="utf-8") for file in sorted(PACKAGE.rglob("*.py")))
    )
    text = text.replace('" "', "")  # a string that goes on
    for key in bibliography.entries():
        for authors, _, year in (name.rpartition(" ") for name in bibliography.names(key)):
            if re.search(rf"{re.escape(authors)}[^;]{{0,200}}?\b{year}", text):
                yield key


def cited_as_data():
    return {*chain(*(a.cites for a in ALGORITHMS.values()), *(cites(r) for r in RESPONDENTS))}


def cites(respondent):
    return getattr(respondent, "cites", ())


def plan_of(name):
    strong = 1.0 if name in ("projection_mechanism", "l1_recovery") else 0.0
    facts = ProblemClass(
        n=N, dim=DIM, lipschitz=2.0, radius=1.0, smoothness=1.0, strong_convexity=strong, sparsity=2
    )
    return ALGORITHMS[name].plan(facts, BUDGET, **CHOICES[name])


@pytest.mark.cases(5)
@pytest.mark.parametrize("name", sorted(ALGORITHMS))
def test_every_plan_cites_the_paper_of_its_algorithm_and_of_its_theorem(name):
    algorithm, plan = ALGORITHMS[name], plan_of(name)
    told = plan.citations()
    theorem = bibliography.named_in(plan.rate.source)
    assert algorithm.cites
    assert theorem or plan.rate.source == "no theorem covers it"
    for key in (*algorithm.cites, *theorem, *plan.guarantee.cites):
        assert told.count(f"{{{key},") == 1
    assert bool(plan.guarantee.cites) == algorithm.private


def test_every_accountant_cites_its_paper():
    assert [r.name for r in RESPONDENTS if not cites(r)] == ["non-private"]


def test_every_entry_is_cited_and_every_key_exists():
    known = set(bibliography.entries())
    assert cited_as_data() <= known
    assert known - cited_as_data() - set(cited_in_prose()) == set()


def test_entries_are_whole_and_stand_in_order():
    file = (PACKAGE / "references.bib").read_text(encoding="utf-8")
    assert file.count("@") == len(bibliography.entries())
    for key, entry in bibliography.entries().items():
        assert entry.count("{") == entry.count("}")
        for field in ("author", "title", "year"):
            assert re.search(rf"^  {field} = \{{.+\}},$", entry, re.MULTILINE), (key, field)
    assert list(bibliography.entries()) == sorted(bibliography.entries())


def test_an_unknown_key_is_refused_by_name_and_an_entry_of_ones_own_is_kept():
    with pytest.raises(KeyError, match="bassily2014"):
        bibliography.bibtex(["basily2014"])
    mine = "@misc{mine, title = {A theorem}}"
    assert bibliography.bibtex([mine, "lan2012", mine]).startswith(f"{mine}\n\n@article{{lan2012,")


def test_a_paper_is_found_by_all_its_authors_alone():
    assert bibliography.named_in("Bassily, Smith and\nThakurta 2014") == ("bassily2014",)
    assert bibliography.named_in("Guzmán et al. 2024; Kumar and Lan 2012") == ()
