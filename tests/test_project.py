"""Files of the project: workflows, hooks, forms, locked versions and citation."""

import re
import tomllib

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from pages import ROOT, text_of

from privopt import Relation

PROJECT = tomllib.loads(text_of("pyproject.toml"))["project"]
WORKFLOWS = sorted(path.name for path in (ROOT / ".github/workflows").glob("*.yml"))
FORMS = sorted(path.name for path in (ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml"))
TARGET = re.compile(r"^([a-z-]+):", re.MULTILINE)


def loaded(path):
    return yaml.safe_load(text_of(path))


def steps(workflow):
    """Return the steps of all jobs of a workflow."""
    jobs = loaded(f".github/workflows/{workflow}")["jobs"]
    return [step for job in jobs.values() for step in job["steps"]]


def requirements(extra=None):
    """Return the requirements of the package with an extra, including the extras that it names."""
    optional = PROJECT["optional-dependencies"]
    texts = [*PROJECT["dependencies"], *(optional[extra] if extra else ())]
    for each in map(Requirement, texts):
        if each.name == PROJECT["name"]:
            for inner in each.extras:
                yield from requirements(inner)
        else:
            yield each


# --- workflows and hooks --------------------------------------------------------------------------


@pytest.mark.parametrize("workflow", WORKFLOWS)
def test_a_workflow_runs_existing_make_targets_with_few_permissions(workflow):
    targets = set(TARGET.findall(text_of("Makefile")))
    commands = [step["run"] for step in steps(workflow) if "run" in step]
    assert commands
    for command in commands:
        make, *names = command.split()
        assert make == "make"
        assert set(names) <= targets
    definition = loaded(f".github/workflows/{workflow}")
    assert definition["permissions"] == {"contents": "read"}
    assert all("timeout-minutes" in job for job in definition["jobs"].values())


@pytest.mark.parametrize("workflow", WORKFLOWS)
def test_an_action_has_a_version(workflow):
    used = [step["uses"] for step in steps(workflow) if "uses" in step]
    assert all(re.fullmatch(r"(actions|pypa)/[\w-]+@(v\d+|release/v\d+)", each) for each in used)


def test_the_tests_run_on_every_declared_python():
    matrix = loaded(".github/workflows/tests.yml")["jobs"]["tests"]["strategy"]["matrix"]
    name = "Programming Language :: Python :: "
    declared = [each.removeprefix(name) for each in PROJECT["classifiers"] if name + "3." in each]
    assert matrix["python"] == declared
    assert {each["dependencies"] for each in matrix["include"]} == {"oldest", "locked"}


def test_the_oldest_versions_are_those_of_the_package():
    pinned = re.findall(r"^(\w+)==(\d+\.\d+)\.0$", text_of(".github/oldest.txt"), re.MULTILINE)
    assert {name for name, _ in pinned} == {"jax", "jaxlib"}
    assert {f"{name}>={version}" for name, version in pinned} <= set(PROJECT["dependencies"])


def test_hooks_are_the_checks_of_the_project():
    hooks = [hook for repo in loaded(".pre-commit-config.yaml")["repos"] for hook in repo["hooks"]]
    assert {"ruff", "ruff-format", "mypy", "language", "check-yaml", "check-toml"} <= {
        hook["id"] for hook in hooks
    }
    files = [word for hook in hooks for word in hook["entry"].split() if word.endswith(".py")]
    assert [file for file in files if not (ROOT / file).exists()] == []


# --- forms ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", [name for name in FORMS if name != "config.yml"])
def test_a_form_is_well_formed(form):
    fields = loaded(f".github/ISSUE_TEMPLATE/{form}")
    assert fields.keys() == {"name", "description", "labels", "body"}
    names = [field.get("id") for field in fields["body"] if field["type"] != "markdown"]
    assert len(names) == len(set(names) - {None}) > 0


def test_a_privacy_report_needs_a_pair_and_two_epsilons():
    body = loaded(".github/ISSUE_TEMPLATE/privacy.yml")["body"]
    required = {each["id"] for each in body if each.get("validations", {}).get("required")}
    assert {"mechanism", "relation", "neighbours", "claimed", "measured"} <= required
    (relation,) = (each for each in body if each.get("id") == "relation")
    assert relation["attributes"]["options"] == [each.value for each in Relation]


# --- lock file and citation -----------------------------------------------------------------------


def test_every_dependency_has_a_locked_version_within_its_bounds():
    """``make lock`` writes the file again. A package may have one version per Python."""
    versions: dict[str, list[str]] = {}
    for package in tomllib.loads(text_of("pylock.toml"))["packages"]:
        versions.setdefault(package["name"], []).append(package["version"])
    needed = list(requirements("dev"))
    assert len(needed) > 25
    assert [
        str(each)
        for each in needed
        if not (locked := versions.get(canonicalize_name(each.name)))
        or not all(each.specifier.contains(version) for version in locked)
    ] == []


def test_locked_files_have_hashes_and_public_addresses():
    packages = tomllib.loads(text_of("pylock.toml"))["packages"]
    files = [
        file for package in packages for file in (*package["wheels"], package.get("sdist")) if file
    ]
    assert all(file["hashes"]["sha256"] for file in files)
    assert {file["url"].split("/")[2] for file in files} == {"files.pythonhosted.org"}


def test_the_reference_of_the_readme_is_that_of_the_citation_file():
    citation = loaded("CITATION.cff")
    assert set(citation) >= {"cff-version", "message", "title", "authors", "version"}
    (entry,) = re.findall(r"^```bibtex\n(.*?)^```", text_of("README.md"), re.S | re.M)
    names = [
        each.get("name") or f"{each['given-names']} {each['family-names']}"
        for each in citation["authors"]
    ]
    fields = dict(re.findall(r"^  (\w+) = \{+(.*?)\}+,?$", entry, re.MULTILINE))
    dated = {"year": str(citation["date-released"].year)} if "date-released" in citation else {}
    assert fields == {
        **dated,
        "title": citation["title"],
        "author": " and ".join(names),
        "version": citation["version"],
    }
