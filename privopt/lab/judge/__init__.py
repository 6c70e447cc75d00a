"""Recorded results judged: theorems by their cells, claims by their rows."""

from privopt.lab.judge.verdict import Outcome, Verdict, tally
from privopt.lab.judge.verdicts import verdicts

__all__ = ["Outcome", "Verdict", "tally", "verdicts"]
