"""The report on a results folder, as Markdown and as a page, and what a terminal shows."""

from privopt.lab.write.console import Display, verdict_table
from privopt.lab.write.report import write_report

__all__ = ["Display", "verdict_table", "write_report"]
