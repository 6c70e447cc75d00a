"""Composition of privacy-loss distributions by the Fourier transform, with certified bounds."""

from __future__ import annotations

from privopt.privacy.fourier import search

__all__ = ["search"]
