"""What there is: experiment files, algorithms, families and whether their data are at hand."""

from __future__ import annotations

import runpy
import traceback
from collections.abc import Sequence
from pathlib import Path

from privopt.algorithms import ALGORITHMS
from privopt.lab.make.cells import absent_families
from privopt.lab.make.experiment import Experiment, require_profile
from privopt.lab.make.study import Study
from privopt.problems import FAMILIES, family

__all__ = ["algorithms", "choose", "discover", "families", "load"]


def load(path: Path | str) -> Experiment | Study:
    """The ``experiment`` that a Python file declares.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If it fails, declares no ``experiment``, or one of another name than the file's.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such experiment")
    try:
        found = runpy.run_path(str(path)).get("experiment")
    except Exception as error:
        raise ValueError(f"{_place(path, error)}: {type(error).__name__}: {error}") from error
    if not isinstance(found, Experiment | Study):
        raise ValueError(
            f"{path} must declare `experiment = Experiment(...)` or Study(...), got {found!r}"
        )
    if found.name != path.stem:
        raise ValueError(f"name must be the file's, {path.stem!r}, got {found.name!r} in {path}")
    return found


def discover(folder: Path | str) -> tuple[Path, ...]:
    """The experiment files of a folder, without its sub-folders and names that start with _."""
    return tuple(
        path for path in sorted(Path(folder).glob("*.py")) if not path.name.startswith("_")
    )


def choose(
    names: Sequence[str], folder: Path | str, profile: str
) -> tuple[list[Experiment | Study], dict[str, list[str]]]:
    """The experiments of that name in ``folder``, or at that path; all of ``folder`` for none.

    Returns
    -------
    list of Experiment and Study
        Those of the profile.
    mapping of str to list of str
        Why others are left out, where none was asked for by name, and their names.

    Raises
    ------
    FileNotFoundError
        If there is none, or one is not there.
    ValueError
        If one cannot be loaded, two share a name and so the place of their results, or one that
        is named does not belong to the profile or lacks all its data.
    """
    paths = [Path(n) if n.endswith(".py") else Path(folder, f"{n}.py") for n in names]
    paths = paths or list(discover(folder))
    if not paths:
        raise FileNotFoundError(f"no experiments in {folder}/: name a file, or change folder")
    for path in paths:
        if not path.is_file():
            known = ", ".join(each.stem for each in discover(folder)) or "none"
            raise FileNotFoundError(f"no experiment {path}; in {folder}/ there are: {known}")
    found = [load(path) for path in paths]
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
        require_profile(found, profile)
    if profile not in found.profiles:
        return f"of the {found.profiles[0]} profile alone"
    if not isinstance(found, Experiment):
        return ""
    absent = absent_families(found)
    if len(absent) < len(found.family_names):
        return ""
    why = "; ".join(dict.fromkeys(absent.values()))
    if named:
        raise ValueError(f"{found.name} has nothing to run: {why}")
    return why


def algorithms() -> dict[str, str]:
    """Name -> summary."""
    return {name: algorithm.summary for name, algorithm in ALGORITHMS.items()}


def families() -> dict[str, tuple[str, str | None]]:
    """Name -> (summary, what is missing or None)."""
    return {name: (found.summary, _missing(name)) for name, found in FAMILIES.items()}


def _missing(name: str) -> str | None:
    try:
        family(name)
    except (FileNotFoundError, ValueError, OSError) as error:
        return str(error)
    return None


def _place(path: Path, error: Exception) -> str:
    """The file, and the line of it that failed."""
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == str(path)]
    if isinstance(error, SyntaxError):
        lines = [error.lineno]
    return f"{path}, line {lines[-1]}" if lines else str(path)
