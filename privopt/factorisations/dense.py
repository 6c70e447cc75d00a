"""Dense factorisations, and the one with the smallest mean squared error."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import cholesky, eigh, solve_triangular, toeplitz

from privopt.arguments import described
from privopt.factorisations.factorisation import Factorisation, Patterns, largest_total
from privopt.factorisations.toeplitz import square_root

MAX_STEPS = 4096
MAX_ROUNDS = 200
MEMORY = 8  # number of mixed past rounds
COARSE = 32  # steps below which the square root is the start
GAP = 1e-6  # relative, of the mean squared error

_Floats = NDArray[np.float64]


class DenseFactorisation(Factorisation):
    """Factorisation with any lower triangular ``encoder`` ``C`` and ``B = A C^-1``.

    The relative excess of the mean squared error over the optimum is at most ``gap``.

    *Sensitivity*. One participation: the largest norm of a column, exact. More: by the Gram matrix,
    exact if it has no negative entry and there are few patterns.
    """

    def __init__(self, encoder: ArrayLike, name: str = "dense", gap: float = math.inf) -> None:
        try:
            matrix = np.array(encoder, dtype=np.float64)
        except (TypeError, ValueError):
            raise ValueError(
                f"encoder must be an array of numbers, got {described(encoder)}"
            ) from None
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
            raise ValueError(f"encoder must be a square matrix, got shape {matrix.shape}")
        if not np.isfinite(matrix).all():
            raise ValueError("encoder must be finite, got infinities or NaN")
        if np.triu(matrix, 1).any():
            raise ValueError("encoder must be lower triangular, got numbers above the diagonal")
        if not np.diag(matrix).all():
            raise ValueError("encoder must be invertible, got zeros on the diagonal")
        super().__init__(name, len(matrix))
        matrix.setflags(write=False)
        self._encoder = matrix
        self.gap = gap

    def encoder(self) -> _Floats:
        return self._encoder

    def decoder(self) -> _Floats:
        inverse = solve_triangular(self._encoder, np.eye(self.steps), lower=True)
        return np.cumsum(inverse, axis=0)

    def variances(self) -> _Floats:
        return np.sum(self.decoder() ** 2, axis=1)

    def _sensitivity(self, allowed: Patterns) -> float:
        if allowed.times == 1:
            return float(np.linalg.norm(self._encoder, axis=0).max())
        return math.sqrt(largest_total(self._encoder.T @ self._encoder, allowed))


def optimal(steps: int) -> DenseFactorisation:
    """Return the ``C`` with the smallest ``|B|_F`` among encoders with columns of norm at most 1.

    Up to ``MAX_STEPS`` steps, in cubic time; certified to ``GAP`` unless ``MAX_ROUNDS`` is reached.
    The fixed point ``v = diag (D M D)^(1/2)``, ``D = diag(v)^(1/2)``, ``M = A^T A``, is iterated in
    ``log v`` with Anderson mixing, starting from the solution for half as many steps. Certificate:
    :ref:`Mechanisms, Theorem 5 <theory-mechanisms-5>`.

    Source: Denisov, McMahan, Rush, Smith and Thakurta 2022 (arXiv:2202.08312), Theorem 3.2 and its
    fixed point; the mixing and the start are derived here.

    Examples
    --------
    >>> factorisation = optimal(16)
    >>> round(factorisation.rmse(), 5), factorisation.gap < 1e-6
    (1.6894, True)
    """
    if steps > MAX_STEPS:
        raise ValueError(f"steps must be at most {MAX_STEPS} for the optimum, got {steps}")
    solution = _fixed_point(steps)
    gram = solution.gram / np.max(np.diag(solution.gram))
    # In reversed order, X = U^T U with U upper triangular is X = C^T C with C lower triangular.
    factor = cholesky(gram[::-1, ::-1], lower=False)[::-1, ::-1]
    return DenseFactorisation(np.tril(factor), "optimal", solution.gap)


class _Round(NamedTuple):
    """Result of one ``v``: ``diag (D M D)^(1/2)``, ``X`` and the relative duality gap."""

    image: _Floats
    gram: _Floats
    gap: float


def _round(weights: _Floats) -> _Round:
    """Return one step of the fixed point, with its certificate."""
    steps = len(weights)
    scale = np.sqrt(weights)
    later = np.arange(steps, 0, -1.0)
    values, vectors = eigh(np.minimum.outer(later, later) * np.outer(scale, scale))
    roots = np.sqrt(np.maximum(values, 0.0))
    root = (vectors * roots) @ vectors.T
    image = np.diag(root).copy()
    gram = root / np.outer(scale, scale)
    # tr(M X^-1) = tr (D M D)^(1/2) times the largest diagonal entry of X, which scales X.
    primal = float(roots.sum()) * float(np.max(image / weights))
    dual = 2.0 * float(roots.sum()) - float(weights.sum())
    return _Round(image, gram, 1.0 - dual / primal)


def _fixed_point(steps: int) -> _Round:
    """Return the fixed point by Anderson mixing in ``log v``, with plain steps as a safeguard."""
    log_weights = np.log(_start(steps))
    current = _round(np.exp(log_weights))
    best = current
    points: list[_Floats] = []
    changes: list[_Floats] = []
    for _ in range(MAX_ROUNDS):
        if best.gap <= GAP:
            break
        points.append(log_weights)
        changes.append(np.log(current.image) - log_weights)
        log_weights = _mixed(points[-MEMORY:], changes[-MEMORY:])
        current = _round(np.exp(log_weights))
        if current.gap < best.gap:
            best = current
        elif current.gap > 4.0 * best.gap:  # mixing diverged: plain step from the last point
            log_weights = points[-1] + changes[-1]
            points, changes = [], []
            current = _round(np.exp(log_weights))
    return best


def _mixed(points: list[_Floats], changes: list[_Floats]) -> _Floats:
    """Return the image of the combination of past points with the smallest change."""
    target = points[-1] + changes[-1]
    if len(points) == 1:
        return target
    differences = np.diff(np.array(changes), axis=0).T
    weights = np.linalg.lstsq(differences, changes[-1], rcond=1e-10)[0]
    mixed: _Floats = target - (np.diff(np.array(points), axis=0).T + differences) @ weights
    return mixed


def _start(steps: int) -> _Floats:
    """Return ``v`` interpolated from half as many steps, or of the square root for few steps."""
    if steps <= COARSE:
        root = toeplitz(square_root(steps), np.zeros(steps))
        gram = root.T @ root
        return np.diag(gram) / np.max(np.diag(gram)) * steps
    half = -(-steps // 2)
    coarse = _fixed_point(half)
    fine_nodes = (np.arange(steps) + 0.5) / steps
    coarse_nodes = (np.arange(half) + 0.5) / half
    log_weights = np.interp(fine_nodes, coarse_nodes, np.log(coarse.image))
    return np.exp(log_weights + math.log(half / steps))
