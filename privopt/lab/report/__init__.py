"""Reports on a results folder: Markdown, one HTML file, and tables for a terminal."""

__all__ = ()  # the public names are in privopt.lab
