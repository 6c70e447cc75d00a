"""Skipped tests of a run, in one line."""

from collections import Counter
from pathlib import Path


def summary(reports):
    """Return the groups of skipped tests with reason and number; empty if none is skipped.

    A group is a file and a reason: ``Skipped: browser (no Chromium) 9; wheel (no hatchling) 5``.
    """
    groups = Counter()
    for report in reports:
        file = report.nodeid.partition("::")[0]
        reason = str(report.longrepr[2]).removeprefix("Skipped: ")
        groups[Path(file).stem.removeprefix("test_"), reason] += 1
    told = (f"{name} ({reason}) {count}" for (name, reason), count in sorted(groups.items()))
    return f"Skipped: {'; '.join(told)}" if groups else ""
