"""Experiments declared, run and recorded; nothing here judges or draws."""

__all__ = ()  # privopt.lab hands out
