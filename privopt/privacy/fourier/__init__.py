"""Composition of privacy-loss distributions by the Fourier transform, with certified bounds."""

from __future__ import annotations

from privopt.privacy.fourier import query, search

__all__ = ["query", "search"]
