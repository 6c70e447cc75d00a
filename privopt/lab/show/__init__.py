"""Recorded results judged against the theorems and shown: verdicts, figures, report, terminal."""

from privopt.lab.show.console import Display, verdict_table
from privopt.lab.show.report import verdicts, write_report
from privopt.lab.show.verdict import Outcome, Verdict, tally

__all__ = ["Display", "Outcome", "Verdict", "tally", "verdict_table", "verdicts", "write_report"]
