"""Figures of recorded results and of the verdicts on them."""

__all__ = ()  # privopt.lab hands out
