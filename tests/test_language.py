"""Language gate of CONTRIBUTING, "Style": ceilings per package, which never increase.

``python tests/test_language.py [PACKAGE]`` prints all places that count, and the table.
"""

import ast
import collections
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "privopt"

ELLIPTICAL = re.compile(
    r"^(Of|What|Whether|Who|Whose|The same|As|How|So|Why|That|Where|Which|By|From|In|With|Without"
    r"|At|About|It|Its|Their|Those|All|For|To|Nothing|None|And|Or|An? same|Likewise|Also|These"
    r"|This is|Beside)\b"
)
IDIOM = re.compile(
    r"\b(who|whom|whose|what|whatever|nobody|nothing|so many|of its own|of one's own|of their own"
    r"|told|tell|tells|asks?|asked|hears?|speaks? of|goes? on|begins? anew|comes? (?:down|out)"
    r"|lies?|stands?)\b",
    re.IGNORECASE,
)


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


PARTICIPLES = words(
    """
    found told moved left apart beside asked given taken drawn kept seen said heard made known held
    spent named wanted shown chosen carried behind above below between around alone together
    """
)
CODE = re.compile(r"``[^`]*``|`[^`]*`|>>>.*|\$[^$]*\$")
GLOSSARY = words(
    """
    noised coins leader premises Premises obstacle obstacles unmoving horizon Powers floors
    bracket asked Plate Study Listing Trial Piece Kept Job Bench begin Memory turns
    """
)
VERBS = words(
    """
    Abbreviate Accept Add Adjust Aggregate Allocate Answer Append Apply Ask Assemble Attach Attack
    Audit Average Bound Bracket Build Calibrate Cancel Carry Cast Catch Certify Change Check Choose
    Clear Clip Close Collect Combine Compare Compile Compose Compute Concatenate Construct Convert
    Convolve Copy Count Create Cut Debias Declare Decode Decompose Decorate Decrease Define Delete
    Describe Determine Differentiate Divide Download Draw Drop Encode Enlarge Estimate Evaluate
    Execute Expand Export Extend Factor Factorise Fall Fetch Fill Filter Find Fit Flatten Format
    Freeze Generate Get Give Group Guard Handle Hash Import Include Increase Initialise Insert
    Integrate Interpolate Intersect Invert Iterate Join Keep Label Leave Limit Link List Load Lock
    Look Make Map Mark Mask Match Maximise Measure Merge Minimise Move Multiply Normalise Open
    Optimise Order Override Pad Parse Partition Perturb Pick Plan Plot Precondition Predict Prepare
    Print Process Project Prove Publish Put Raise Randomise Rank Read Rebuild Receive Recompute
    Reconstruct Record Recover Reduce Refine Refuse Register Release Remove Rename Render Repeat
    Replace Replay Report Require Rescale Reset Reshape Resolve Restore Restrict Resume Return Round
    Run Sample Save Scale Search Select Send Serialise Set Shard Shift Show Shrink Simulate Skip
    Solve Sort Split Spend Square Stack Start Stop Store Submit Subtract Sum Switch Symmetrise Take
    Test Tighten Time Trace Train Transform Translate Transpose Truncate Try Tune Unflatten Update
    Use Validate Verify Wait Walk Warn Weight Wrap Write Yield
    """
)


class Measure(NamedTuple):
    """Counts of one package.

    Elliptical first words in percent, idioms per 1,000 words, participles as names in percent,
    functions without an imperative verb, and identifiers of the glossary's left column.
    """

    first_words: float
    idioms: float
    variables: float
    without_verb: int = 0
    glossary: int = 0


FINAL = Measure(1.0, 1.5, 0.3)
CEILINGS: dict[str, Measure] = {
    "accounting": Measure(1.0, 1.5, 0.5, 0, 0),
    "lab": Measure(1.0, 1.5, 0.3, 0, 3),
    "statistics": Measure(1.0, 1.5, 0.6, 0, 0),
}
REPEATED_CLASSES = 8  # public names of classes that are defined more than once


def sentences(tree: ast.AST) -> Iterator[tuple[ast.AST, str, str]]:
    """Yield node, first sentence and complete text of each docstring."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            text = ast.get_docstring(node)
            if text:
                first = re.split(r"(?<=[.:])\s|\n\n", text.strip())[0].replace("\n", " ")
                yield node, first, text


def is_property(node: ast.FunctionDef) -> bool:
    names = [getattr(each, "attr", getattr(each, "id", "")) for each in node.decorator_list]
    return any(name in ("property", "cached_property", "setter") for name in names)


def identifiers(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield line and name of each definition: classes, functions, arguments, variables."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            yield node.lineno, node.name
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id


def measured(files: list[Path]) -> tuple[Measure, list[str]]:
    """Return the measure of ``files``, and the places that count."""
    count: collections.Counter[str] = collections.Counter()
    places = []
    for file in files:
        tree = ast.parse(file.read_text(encoding="utf-8"))
        at = file.relative_to(ROOT)
        for node, first, text in sentences(tree):
            line = getattr(node, "lineno", 1)
            prose = CODE.sub("", text)
            count.update(docstrings=1, words=len(prose.split()), idioms=len(IDIOM.findall(prose)))
            places += [f"{at}:{line}: {word}" for word in IDIOM.findall(prose)]
            if ELLIPTICAL.match(first):
                count.update(first_words=1)
                places.append(f"{at}:{line}: {first[:100]}")
            function = isinstance(node, ast.FunctionDef) and not is_property(node)
            if function and re.split(r"\W", first)[0] not in VERBS:
                count.update(without_verb=1)
                places.append(f"{at}:{line}: no verb: {first[:100]}")
        for node in ast.walk(tree):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                count.update(names=1)
                if node.id in PARTICIPLES:
                    count.update(variables=1)
                    places.append(f"{at}:{node.lineno}: variable {node.id}")
        for line, name in identifiers(tree):
            if name in GLOSSARY:
                count.update(glossary=1)
                places.append(f"{at}:{line}: name {name}")
    return (
        Measure(
            100.0 * count["first_words"] / max(1, count["docstrings"]),
            1000.0 * count["idioms"] / max(1, count["words"]),
            100.0 * count["variables"] / max(1, count["names"]),
            count["without_verb"],
            count["glossary"],
        ),
        places,
    )


def packages() -> dict[str, list[Path]]:
    """Return the files of each package; modules at the top are one package, ``privopt``."""
    files: dict[str, list[Path]] = collections.defaultdict(list)
    files["benchmarks"] = sorted((ROOT / "benchmarks").rglob("*.py"))
    for file in sorted(PACKAGE.rglob("*.py")):
        parts = file.relative_to(PACKAGE).parts
        files["privopt" if len(parts) == 1 else parts[0]].append(file)
    return dict(files)


def repeated_classes() -> list[str]:
    """Return the public names of classes with more than one definition."""
    names = collections.Counter(
        node.name
        for file in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    return sorted(name for name, times in names.items() if times > 1)


@pytest.mark.parametrize("package", packages())
def test_the_language_of_a_package_is_at_its_ceilings(package):
    """Check a package; without a line in the table it has the final ceilings."""
    ceiling = CEILINGS.get(package, FINAL)
    measure, places = measured(packages()[package])
    above = [
        f"{name} {value:.2f} > {limit}"
        for name, value, limit in zip(Measure._fields, measure, ceiling, strict=True)
        if value > limit
    ]
    assert not above, "\n".join([*above, *places[:40]])


@pytest.mark.parametrize("package", CEILINGS)
def test_a_ceiling_is_lowered_with_its_package(package):
    measure, _ = measured(packages()[package])
    for value, limit, final in zip(measure, CEILINGS[package], FINAL, strict=True):
        assert limit <= max(final, 1.2 * value + 1.0)


def test_a_public_class_name_is_defined_once():
    assert len(repeated_classes()) <= REPEATED_CLASSES, repeated_classes()


SUBJECT = re.compile(r"[a-z][\w`/ ,.-]*: [a-z`A-Z]")


def test_commit_messages_have_a_scope():
    """Check recent commits: ``scope: imperative``, at most 100 characters."""
    log = subprocess.run(
        ["git", "log", "--no-merges", "--since=2026-11-26T21:50", "--format=%s"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    wrong = [s for s in log.stdout.splitlines() if not SUBJECT.match(s) or len(s) > 100]
    assert not wrong


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        (
            'def f():\n    """What is left."""',
            {"first_words": 100.0, "idioms": 1000.0 / 3, "without_verb": 1},
        ),
        ('def f():\n    """Return who asked."""', {"idioms": 1000.0 * 2 / 3}),
        ("found = 1", {"variables": 100.0}),
        ("def horizon(): ...", {"glossary": 1}),
        ('def f():\n    """Return the sensitivity."""', {}),
    ],
)
def test_the_measure_sees_planted_faults(text, fields, tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "ROOT", tmp_path)
    (tmp_path / "planted.py").write_text(text)
    measure, places = measured([tmp_path / "planted.py"])
    expected = Measure(0.0, 0.0, 0.0)._replace(**fields)
    for name in Measure._fields:
        assert getattr(measure, name) == pytest.approx(getattr(expected, name)), name
    assert bool(places) == bool(fields)


if __name__ == "__main__":
    for name, files in packages().items():
        measure, places = measured(files)
        if name in sys.argv[1:]:
            print(*places, sep="\n")
        numbers = ", ".join(f"{value:.1f}" for value in measure[:3])
        print(f'    "{name}": Measure({numbers}, {measure.without_verb}, {measure.glossary}),')
    print(len(repeated_classes()), "classes:", *repeated_classes())
