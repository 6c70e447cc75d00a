"""Recorded results judged: theorems by their cells, claims by their rows."""

__all__ = ()  # privopt.lab hands out
