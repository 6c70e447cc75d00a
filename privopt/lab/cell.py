"""A cell: one algorithm on one problem at one budget, replicated. The unit that is kept."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from privopt.privacy import gaussian_mu
from privopt.spec import Budget

__all__ = ["Cell", "Choice"]

Choice = str | int | float | None


@dataclass(frozen=True, kw_only=True)
class Cell:
    """Everything that names a cell.

    Attributes
    ----------
    experiment, algorithm, family : str
    choices : tuple of (str, value)
        What the plan was told beyond problem class and budget.
    n, dim : int
    budget : Budget
    strength : float
        The family's free parameter.
    replicates : int
    axes : tuple of str
        The axes of the sweep that the cell serves; no part of what it computes.
    """

    experiment: str
    algorithm: str
    choices: tuple[tuple[str, Choice], ...]
    family: str
    n: int
    dim: int
    budget: Budget
    strength: float
    replicates: int
    axes: tuple[str, ...]

    @property
    def mu(self) -> float | None:
        """The Gaussian-DP parameter of the budget; ``None`` for pure differential privacy."""
        if self.budget.delta == 0.0:
            return None
        return gaussian_mu(self.budget.epsilon, self.budget.delta)

    @property
    def noise_ratio(self) -> float:
        """``sqrt(dim) / (n mu)``, or ``dim / (n epsilon)`` for pure differential privacy."""
        if self.mu is None:
            return self.dim / (self.n * self.budget.epsilon)
        return math.sqrt(self.dim) / (self.n * self.mu)

    @property
    def label(self) -> str:
        """For people."""
        return (
            f"{self.algorithm} on {self.family}, n={self.n} dim={self.dim} "
            f"epsilon={self.budget.epsilon:g} strength={self.strength:g}"
        )

    def key(self, **context: Any) -> str:
        """SHA-256 of all that changes the result: the cell's fields but ``axes``, and ``context``.

        Parameters
        ----------
        **context : JSON value
            Root seed, data, code, environment.
        """
        fields: Mapping[str, Any] = {
            "experiment": self.experiment,
            "algorithm": self.algorithm,
            "choices": dict(self.choices),
            "family": self.family,
            "n": self.n,
            "dim": self.dim,
            "epsilon": self.budget.epsilon,
            "delta": self.budget.delta,
            "relation": self.budget.relation.value,
            "strength": self.strength,
            "replicates": self.replicates,
        }
        text = json.dumps({"cell": fields, **context}, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()
