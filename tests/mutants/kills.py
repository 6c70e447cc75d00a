"""Mutants at random places of a package, and the tests that detect them.

``python tests/mutants/kills.py theory 20`` plants twenty mutants in ``privopt/theory``, one after
another, runs every case of ``tests/theory`` on each, and prints one line per mutant. Then it lists
the tests that alone detect a mutant, those that detect only mutants that others detect too, and
those that detect none. A test of the last two lists may be removed after many mutants, unless it
states a promise to users.

``python tests/mutants/kills.py theory/advantage.py 6 tests/theory/test_advantage.py`` uses one file
and its tests. In a whole package, few mutants are in the code of a few tests.
"""

from __future__ import annotations

import ast
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from run import ROOT, copied, pytest_of

OTHER = {
    ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==",
    ast.Is: "is not", ast.IsNot: "is", ast.Add: "-", ast.Sub: "+", ast.Mult: "/", ast.Div: "*",
    ast.And: "or", ast.Or: "and", ast.BitAnd: "|", ast.BitOr: "&",
}  # fmt: skip
NAMES = {"min": "max", "max": "min", "minimum": "maximum", "maximum": "minimum", "any": "all",
         "all": "any", "floor": "ceil", "ceil": "floor", "round_up": "round_down", "True": "False",
         "False": "True"}  # fmt: skip
FAILED = re.compile(r"^(?:FAILED|ERROR) ([^\s\[]+)", re.MULTILINE)
COLLECTED = re.compile(r"^(tests/[^\s\[]+::[^\s\[]+)", re.MULTILINE)


class Change(NamedTuple):
    """Replacement of the text from ``start`` to ``end`` in a line by ``new``."""

    line: int
    start: int
    end: int
    new: str

    def planted(self, text: str) -> str:
        """Return the file with the change."""
        lines = text.split("\n")
        whole = lines[self.line - 1].encode()
        changed = whole[: self.start] + self.new.encode() + whole[self.end :]
        lines[self.line - 1] = changed.decode()
        return "\n".join(lines)


def changes(source: str) -> Iterator[Change]:
    """Return all changes of operators, numbers and names in ``NAMES``, outside of messages."""
    tree = ast.parse(source)
    quiet = [
        (node.lineno, node.end_lineno or node.lineno)
        for node in ast.walk(tree)
        if isinstance(node, ast.Raise | ast.JoinedStr | ast.Import | ast.ImportFrom)
    ]
    lines = source.split("\n")

    def between(left: ast.expr, right: ast.expr, new: str) -> Iterator[Change]:
        """Return the operator between two operands of one line, without parentheses."""
        if left.end_lineno != right.lineno or left.end_col_offset is None:
            return
        gap = lines[right.lineno - 1].encode()[left.end_col_offset : right.col_offset].decode()
        sign = gap.strip(" ()")
        if sign:
            start = left.end_col_offset + gap.index(sign)
            yield Change(right.lineno, start, start + len(sign), new)

    for node in ast.walk(tree):
        line = getattr(node, "lineno", None)
        if line is None or any(first <= line <= last for first, last in quiet):
            continue
        if isinstance(node, ast.BinOp) and type(node.op) in OTHER:
            yield from between(node.left, node.right, OTHER[type(node.op)])
        elif isinstance(node, ast.Compare) and type(node.ops[0]) in OTHER:
            yield from between(node.left, node.comparators[0], OTHER[type(node.ops[0])])
        elif isinstance(node, ast.BoolOp):
            yield from between(*node.values[:2], OTHER[type(node.op)])
        elif isinstance(node, ast.Constant) and type(node.value) is float:
            yield Change(line, node.col_offset, node.end_col_offset or 0, f"{1.1 * node.value}")
        elif isinstance(node, ast.Name) and node.id in NAMES:
            yield Change(line, node.col_offset, node.end_col_offset or 0, NAMES[node.id])


def killers(
    tree: Path, file: Path, change: Change, tests: list[str], seconds: float
) -> set[str] | None:
    """Return the test functions that fail, or None if the run does not end or has no tests."""
    path = tree / file
    original = path.read_text(encoding="utf-8")
    path.write_text(change.planted(original), encoding="utf-8")
    try:
        done = pytest_of(tree, ["--all", "--tb=no", "-rfE", *tests], seconds)
    except subprocess.TimeoutExpired:
        return None
    finally:
        path.write_text(original, encoding="utf-8")
    return set(FAILED.findall(done.stdout)) if done.returncode in (0, 1) else None


def main(room: str, count: str = "20", *tests: str) -> None:
    """Plant mutants, run tests and print. One count and tree always give the same mutants."""
    chance, kills = random.Random(room), {}
    place = ROOT / "privopt" / room
    files = sorted(place.rglob("*.py")) or [place]
    places = [
        (file.relative_to(ROOT), change)
        for file in files
        for change in changes(file.read_text(encoding="utf-8"))
    ]
    selected = list(tests) or [f"tests/{room}"]
    with tempfile.TemporaryDirectory() as folder:
        tree = copied(Path(folder))
        collected = set(
            COLLECTED.findall(pytest_of(tree, ["--all", "--collect-only", *selected]).stdout)
        )
        start = time.monotonic()
        if pytest_of(tree, ["--all", *selected]).returncode != 0:
            raise SystemExit("the tests fail before anything is planted")
        seconds = 60.0 + 3.0 * (time.monotonic() - start)  # a mutant may loop for ever
        for file, change in chance.sample(places, min(int(count), len(places))):
            killed_by = killers(tree, file, change, selected, seconds)
            outcome = "ends the run" if killed_by is None else f"killed by {len(killed_by)}"
            if killed_by is not None:
                kills[file, change] = killed_by
            old = (ROOT / file).read_text(encoding="utf-8").split("\n")[change.line - 1].strip()
            outcome = outcome if killed_by != set() else "SURVIVES"
            print(f"{outcome:<14}{file}:{change.line} -> {change.new}  | {old}", flush=True)
    single = {next(iter(tests)) for tests in kills.values() if len(tests) == 1}
    every = {test for tests in kills.values() for test in tests}
    print(f"\n{len(every)} tests killed a mutant, {len(single)} one that no other kills:")
    print(*sorted(single), sep="\n")
    print("\nnothing that another does not kill too:")
    print(*sorted(every - single), sep="\n")
    print("\nnothing:")
    print(*sorted(collected - every), sep="\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
