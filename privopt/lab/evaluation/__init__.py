"""Verdicts on recorded results: on theorems from the cells, on claims from the rows."""

__all__ = ()  # the public names are in privopt.lab
