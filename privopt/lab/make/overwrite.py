"""Protection of recorded tables: a run never replaces one that holds more than it can measure."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from privopt.lab.make.cells import absent_families
from privopt.lab.make.experiment import Experiment
from privopt.lab.make.folder import ResultsError
from privopt.lab.make.records import Recorded, read
from privopt.lab.make.study import Study
from privopt.problems.datasets import missing


class OverwriteError(ResultsError):
    """A recorded table would be replaced by one that holds less; the message says why."""


def keep_recorded(folder: Path, experiment: Experiment | Study, profile: str) -> None:
    """Raise ``OverwriteError`` if a run would lose what is recorded in its folder.

    That is a table of the full profile before a quick run, and a table that was recorded with data
    sets that are missing now.
    """
    try:
        before = read(folder)
    except ResultsError:  # nothing is recorded, or nothing that can be read
        return
    if before.about["profile"] == "full" and profile == "quick":
        raise OverwriteError(
            f"{folder} holds the table of the full profile, which the quick one would replace: "
            "left as it is; name another folder"
        )
    absent = missing_data(experiment, profile)
    lost = [name for name in _recorded_with(before, experiment) if name in absent]
    if lost:
        why = "; ".join(dict.fromkeys(absent[name] for name in lost))
        raise OverwriteError(f"{folder} was recorded with {', '.join(lost)}: left as it is ({why})")


def missing_data(experiment: Experiment | Study, profile: str) -> Mapping[str, str]:
    """Return the families or data sets that a run has to leave out, each with the reason."""
    if isinstance(experiment, Experiment):
        return absent_families(experiment)
    return {name: why for name in experiment.data(profile) if (why := missing(name))}


def _recorded_with(before: Recorded, experiment: Experiment | Study) -> list[str]:
    """Return the families or data sets of a table; all that a study names where it has no note."""
    if isinstance(experiment, Experiment):
        return sorted(set(before.cells["family"].to_pylist())) if not before.is_study else []
    return list(before.about.get("data", experiment.data(before.about["profile"])))
