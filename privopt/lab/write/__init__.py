"""The report on a results folder, as Markdown and as a page, and what a terminal shows."""

__all__ = ()  # privopt.lab hands out
