"""Catalogue of experiment files, algorithms and problem families."""

from __future__ import annotations

import ast
import runpy
import traceback
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

from privopt.algorithms import ALGORITHMS
from privopt.lab.runner.analysis import Analysis
from privopt.lab.runner.experiment import Experiment, require_profile
from privopt.lab.runner.quick_tables import missing_data
from privopt.lab.runner.store import Recorded, read
from privopt.problems import FAMILIES
from privopt.problems.catalogue import missing_data as missing_family_data
from privopt.shipped import shipped


def load(path: Path | str) -> tuple[Experiment | Analysis, ...]:
    """Run a Python file and return the experiments and analyses among its variables, in order."""
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such experiment")
    try:
        values = runpy.run_path(str(path)).values()
    except Exception as error:
        raise ValueError(f"{_place(path, error)}: {type(error).__name__}: {error}") from error
    experiments = {id(value): value for value in values if isinstance(value, Experiment | Analysis)}
    if not experiments:
        raise ValueError(f"{path} must declare an Experiment(...) or Analysis(...), got none")
    return tuple(experiments.values())


def discover(folder: Path | str) -> tuple[Path, ...]:
    """Return the experiment files of a folder and its subfolders; names with ``_`` are skipped."""
    return tuple(
        path for path in sorted(Path(folder).rglob("*.py")) if not path.name.startswith("_")
    )


@cache  # all files are parsed for one name
def _declared_names(source: str) -> list[str]:
    try:
        statements = ast.parse(source).body
    except SyntaxError:
        return []
    calls = [
        each.value
        for each in statements
        if isinstance(each, ast.Assign) and isinstance(each.value, ast.Call)
    ]
    return [
        str(keyword.value.value)
        for call in calls
        for keyword in call.keywords
        if keyword.arg == "name" and isinstance(keyword.value, ast.Constant)
    ]


class Declarations:
    """Declared experiments by name; their files are run when they are needed.

    ``paths`` are the files by the names of their experiments. The names are read from the source:
    the argument ``name`` of the calls whose results are variables. A file without any has its own
    name.

    Parameters
    ----------
    experiments : path or iterable of Experiment and Analysis
        Their folder, or the declarations themselves.
    """

    def __init__(self, experiments: Path | str | Iterable[Experiment | Analysis]) -> None:
        self.folder = Path(experiments) if isinstance(experiments, Path | str) else Path()
        self.paths: dict[str, Path] = {}
        self._declared: dict[str, Experiment | Analysis] = {}
        if not isinstance(experiments, Path | str):
            self._declared = {each.name: each for each in experiments}
            return
        for path in discover(experiments):
            names = _declared_names(path.read_text("utf-8", "replace")) or [path.stem]
            self.paths |= dict.fromkeys(names, path)

    def get(self, name: str) -> Experiment | Analysis | None:
        """Return an experiment, or None if it is not declared."""
        if name not in self._declared and name in self.paths:
            self._declared |= {each.name: each for each in load(self.paths[name])}
        return self._declared.get(name)

    def read(self, folder: Path) -> Recorded:
        """Read the tables of a folder; those of an analysis with its declaration."""
        recorded = read(folder)
        declaration = self.get(recorded.about["name"]) if recorded.is_analysis else None
        return recorded._replace(analysis=declaration)


def experiments_of(results: Path) -> Path:
    """Return the folder of the experiments of a results folder.

    ``experiments`` beside it or in the working directory, or the folder of the package.
    """
    folders = [results.parent / "experiments", Path("experiments"), shipped("experiments")]
    return next((folder for folder in folders if folder.is_dir()), folders[0])


def choose(
    names: Sequence[str], folder: Path | str, profile: str
) -> tuple[list[Experiment | Analysis], dict[str, list[str]]]:
    """Load experiments by name from ``folder``, or from a file; all of ``folder`` without names.

    Returns
    -------
    list of Experiment and Analysis
        Experiments of the profile.
    mapping of str to list of str
        Reason -> names of the omitted experiments. A named experiment is never omitted.
    """
    declarations = Declarations(folder)
    selected = [] if names else [each for path in discover(folder) for each in load(path)]
    for name in names:
        if name.endswith(".py"):
            selected += load(name)
        elif experiment := declarations.get(name):
            selected.append(experiment)
        else:
            listing = ", ".join(declarations.paths) or "none"
            raise FileNotFoundError(f"no experiment {name}; in {folder}/ there are: {listing}")
    if not selected:
        raise FileNotFoundError(f"no experiments in {folder}/: name a file, or change folder")
    if len({each.name for each in selected}) < len(selected):
        distinct = ", ".join(each.name for each in selected)
        raise ValueError(f"experiments must have distinct names, got {distinct}")
    runnable: list[Experiment | Analysis] = []
    omitted: dict[str, list[str]] = {}
    for each in selected:
        if reason := _unmet_assumption(each, profile, named=bool(names)):
            omitted.setdefault(reason, []).append(each.name)
        else:
            runnable.append(each)
    return runnable, omitted


def _unmet_assumption(experiment: Experiment | Analysis, profile: str, *, named: bool) -> str:
    """Return the reason why an experiment cannot run; ``ValueError`` if it was named."""
    if named:
        require_profile(experiment.name, experiment.profiles, profile)
    if profile not in experiment.profiles:
        return f"of the {experiment.profiles[0]} profile alone"
    absent = dict(missing_data(experiment, "quick"))
    most = 0 if isinstance(experiment, Analysis) else len(experiment.family_names) - 1
    if len(absent) <= most:
        return ""
    reason = "; ".join(dict.fromkeys(absent.values()))
    if named:
        raise ValueError(f"{experiment.name} has nothing to run: {reason}")
    return reason


def algorithms() -> dict[str, str]:
    """Return the summaries of the algorithms by name."""
    return {name: algorithm.summary for name, algorithm in ALGORITHMS.items()}


def families() -> dict[str, tuple[str, str | None]]:
    """Return ``(summary, missing file or None)`` of the families by name, without reading data."""
    return {name: (family.summary, missing_family_data(name)) for name, family in FAMILIES.items()}


def _place(path: Path, error: Exception) -> str:
    """Return the file, with the line of the error if it is known."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == str(path)]
    if isinstance(error, SyntaxError):
        lines = [error.lineno]
    return f"{path}, line {lines[-1]}" if lines else str(path)
