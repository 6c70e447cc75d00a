"""What there is: experiment files, algorithms, families and whether their data are at hand."""

from __future__ import annotations

import re
import runpy
import traceback
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from privopt.algorithms import ALGORITHMS
from privopt.lab.make.cells import absent_families
from privopt.lab.make.experiment import Experiment, require_profile
from privopt.lab.make.study import Study
from privopt.problems import FAMILIES
from privopt.problems.catalogue import missing_data
from privopt.problems.datasets import missing

_DECLARED = re.compile(
    r"^\w+ = (?:\w+\.)?(?:Experiment|Study|replace)\((?:\s*\w+,)?\s*name=[\"'](\w+)[\"']",
    re.MULTILINE,
)


def load(path: Path | str) -> tuple[Experiment | Study, ...]:
    """The experiments that a Python file declares, in their order: its variables that are one."""
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such experiment")
    try:
        values = runpy.run_path(str(path)).values()
    except Exception as error:
        raise ValueError(f"{_place(path, error)}: {type(error).__name__}: {error}") from error
    found = {id(each): each for each in values if isinstance(each, Experiment | Study)}
    if not found:
        raise ValueError(f"{path} must declare an Experiment(...) or Study(...), got none")
    return tuple(found.values())


def discover(folder: Path | str) -> tuple[Path, ...]:
    """The experiment files of a folder and its sub-folders, without names that start with _."""
    return tuple(
        path for path in sorted(Path(folder).rglob("*.py")) if not path.name.startswith("_")
    )


def declared(folder: Path | str) -> tuple[tuple[str, Path], ...]:
    """The experiments of a folder, each with its file, which is read and not run.

    What is told is the ``name`` that an ``Experiment``, a ``Study`` or a ``replace`` begins with; a
    file without any counts as the experiment of the file's own name.
    """
    return tuple(
        (name, path)
        for path in discover(folder)
        for name in _DECLARED.findall(path.read_text("utf-8", "replace")) or [path.stem]
    )


def choose(
    names: Sequence[str], folder: Path | str, profile: str
) -> tuple[list[Experiment | Study], dict[str, list[str]]]:
    """The experiments of that name in ``folder``, or in that file; all of ``folder`` for none.

    Returns
    -------
    list of Experiment and Study
        Those of the profile.
    mapping of str to list of str
        Why others are left out, where none was asked for by name, and their names.
    """
    loaded = cache(load)
    found: list[Experiment | Study] = []
    for name in names or map(str, discover(folder)):
        if name.endswith(".py"):
            found += loaded(name)
            continue
        there = declared(folder)
        same = [each for at, path in there if at == name for each in loaded(path)]
        if not any(each.name == name for each in same):
            known = ", ".join(dict.fromkeys(at for at, _ in there)) or "none"
            raise FileNotFoundError(f"no experiment {name}; in {folder}/ there are: {known}")
        found += [each for each in same if each.name == name]
    if not found:
        raise FileNotFoundError(f"no experiments in {folder}/: name a file, or change folder")
    if len({each.name for each in found}) < len(found):
        distinct = ", ".join(each.name for each in found)
        raise ValueError(f"experiments must have distinct names, got {distinct}")
    left_out: dict[str, list[str]] = {}
    for each in found:
        if why := _obstacle(each, profile, named=bool(names)):
            left_out.setdefault(why, []).append(each.name)
    others = {name for group in left_out.values() for name in group}
    return [each for each in found if each.name not in others], left_out


def _obstacle(found: Experiment | Study, profile: str, *, named: bool) -> str:
    """Why an experiment is not run; an error where it was asked for by name."""
    if named:
        require_profile(found.name, found.profiles, profile)
    if profile not in found.profiles:
        return f"of the {found.profiles[0]} profile alone"
    if isinstance(found, Study):
        absent = {name: why for name in found.needs if (why := missing(name))}
        enough = not absent
    else:
        absent = absent_families(found)
        enough = len(absent) < len(found.family_names)
    if enough:
        return ""
    why = "; ".join(dict.fromkeys(absent.values()))
    if named:
        raise ValueError(f"{found.name} has nothing to run: {why}")
    return why


def algorithms() -> dict[str, str]:
    """Name -> summary."""
    return {name: algorithm.summary for name, algorithm in ALGORITHMS.items()}


def families() -> dict[str, tuple[str, str | None]]:
    """Name -> (summary, what is missing or None); data are looked for and not read."""
    return {name: (found.summary, missing_data(name)) for name, found in FAMILIES.items()}


def _place(path: Path, error: Exception) -> str:
    """The file, and the line of it that failed."""
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == str(path)]
    if isinstance(error, SyntaxError):
        lines = [error.lineno]
    return f"{path}, line {lines[-1]}" if lines else str(path)
