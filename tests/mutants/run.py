"""Mutants: small defects, each planted in a copy of the tree, and the test that must detect it.

The table is ``table.txt``. ``python tests/mutants/run.py`` prints the mutants that survive, and
fails if there are any. Arguments select the lines of the table that contain one of them. Tests run
on representatives, as in ``make test``, except for mutants with ``all`` in the fifth column.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
TABLE = Path(__file__).with_name("table.txt")
NEAREST = "\n\ndef round_up(x):\n    return __import__('numpy').float32(x).item()\n"
SECONDS = 1200.0  # for one test: a mutant that never ends is seen, too


class Mutant(NamedTuple):
    """Replacement of ``old``, which occurs once in ``file`` of the package, by ``new``.

    ``cases`` is ``all`` if the representatives do not detect the defect, and empty otherwise.
    """

    file: str
    old: str
    new: str
    test: str
    cases: str = ""

    @classmethod
    def of(cls, line: str) -> Mutant:
        """Parse a line of the table."""
        file, old, new, *test = (part.strip(" ").replace("\\n", "\n") for part in line.split("|"))
        return cls(file, old, new.replace("NEAREST", NEAREST), *test)

    def planted(self, text: str) -> str | None:
        """Return the file with the defect, or None if it does not apply."""
        if not self.old:
            return text + self.new
        return text.replace(self.old, self.new) if text.count(self.old) == 1 else None

    def outcome(self, tree: Path) -> str:
        """Return ``killed``, ``survives`` or ``does not apply``."""
        path = tree / "privopt" / self.file
        original = path.read_text(encoding="utf-8")
        if (text := self.planted(original)) is None:
            return "does not apply"
        path.write_text(text, encoding="utf-8")
        try:
            options = ["--all"] if self.cases == "all" else []
            done = pytest_of(tree, ["-qx", *options, f"tests/{self.test}"])
        except subprocess.TimeoutExpired:
            return "killed"
        finally:
            path.write_text(original, encoding="utf-8")
        return "survives" if done.returncode == 0 else "killed"


def lines() -> list[str]:
    """Return the lines of the table."""
    every = TABLE.read_text(encoding="utf-8").splitlines()
    return [line for line in every if line and not line.startswith("#")]


def copied(folder: Path) -> Path:
    """Copy the tree to an empty folder."""
    for name in ("privopt", "tests"):
        shutil.copytree(ROOT / name, folder / name)
    shutil.copy(ROOT / "pyproject.toml", folder)
    return folder


def pytest_of(
    tree: Path, arguments: list[str], seconds: float = SECONDS
) -> subprocess.CompletedProcess[str]:
    """Run tests of a tree."""
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )


def main(words: list[str]) -> int:
    """Print one line per mutant, and return the number that survive."""
    selected = [line for line in lines() if not words or any(word in line for word in words)]
    alive = 0
    with tempfile.TemporaryDirectory() as folder:
        tree = copied(Path(folder))
        for line in selected:
            outcome = Mutant.of(line).outcome(tree)
            alive += outcome != "killed"
            print(f"{outcome:<16}{line}", flush=True)
    print(f"{len(selected) - alive} of {len(selected)} mutants are killed")
    return alive


if __name__ == "__main__":
    sys.exit(min(1, main(sys.argv[1:])))
