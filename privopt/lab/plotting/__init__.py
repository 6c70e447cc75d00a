"""Figures of recorded results and of their verdicts."""

__all__ = ()  # the public names are in privopt.lab
