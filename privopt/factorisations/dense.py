"""The factorisation of least mean square error among all."""

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
MEMORY = 8  # past rounds that are mixed
COARSE = 32  # steps below which there is no coarser problem to start from
GAP = 1e-6  # of the mean square error, relative

_Floats = NDArray[np.float64]


class DenseFactorisation(Factorisation):
    """Any lower triangular ``encoder`` ``C``, with ``B = A C^-1``.

    No factorisation has a mean square error smaller by more than the share ``gap``.

    *Sensitivity*. One participation: the largest norm of a column, exact. More: by the Gram matrix,
    exact where it has no negative entry and the patterns are few.
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
    """The ``C`` of least ``|B|_F`` among those whose columns have norm 1 at most.

    Up to ``MAX_STEPS`` steps, in time that grows like their cube; certified to ``GAP`` unless
    ``MAX_ROUNDS`` end before. ``min tr(M X^-1)`` over ``X = C^T C`` with ``diag X <= 1``, ``M = A^T
    A``, has the dual ``max_v 2 tr (D M D)^(1/2) - sum v``, ``D = diag(v)^(1/2)``. The fixed point
    ``v = diag (D M D)^(1/2)`` of both is iterated in ``log v``, with Anderson mixing, from the
    solution for half as many steps. Every ``v`` gives ``X = D^-1 (D M D)^(1/2) D^-1``, scaled to
    ``diag X <= 1``, and with the dual value a certificate.

    Source: Denisov, McMahan, Rush, Smith and Thakurta 2022 (arXiv:2202.08312), Theorem 3.2 and its
    fixed point; the mixing and the start are ours.

    Examples
    --------
    >>> found = optimal(16)
    >>> round(found.rmse(), 5), found.gap < 1e-6
    (1.6894, True)
    """
    if steps > MAX_STEPS:
        raise ValueError(f"steps must be at most {MAX_STEPS} for the optimum, got {steps}")
    found = _fixed_point(steps)
    gram = found.gram / np.max(np.diag(found.gram))
    # Turned round, X = U^T U with U upper triangular is X = C^T C with C lower triangular.
    factor = cholesky(gram[::-1, ::-1], lower=False)[::-1, ::-1]
    return DenseFactorisation(np.tril(factor), "optimal", found.gap)


class _Round(NamedTuple):
    """What one ``v`` says: ``diag (D M D)^(1/2)``, ``X``, and how far its ends are apart."""

    image: _Floats
    gram: _Floats
    gap: float


def _round(weights: _Floats) -> _Round:
    """One step of the fixed point, with its certificate."""
    steps = len(weights)
    scale = np.sqrt(weights)
    later = np.arange(steps, 0, -1.0)
    values, vectors = eigh(np.minimum.outer(later, later) * np.outer(scale, scale))
    roots = np.sqrt(np.maximum(values, 0.0))
    root = (vectors * roots) @ vectors.T
    image = np.diag(root).copy()
    gram = root / np.outer(scale, scale)
    # tr(M X^-1) = tr (D M D)^(1/2), times the largest diagonal entry of X, by which X is scaled.
    primal = float(roots.sum()) * float(np.max(image / weights))
    dual = 2.0 * float(roots.sum()) - float(weights.sum())
    return _Round(image, gram, 1.0 - dual / primal)


def _fixed_point(steps: int) -> _Round:
    """The fixed point by Anderson mixing in ``log v``; a plain step where mixing strays."""
    log_weights = np.log(_start(steps))
    found = _round(np.exp(log_weights))
    best = found
    points: list[_Floats] = []
    moves: list[_Floats] = []
    for _ in range(MAX_ROUNDS):
        if best.gap <= GAP:
            break
        points.append(log_weights)
        moves.append(np.log(found.image) - log_weights)
        log_weights = _mixed(points[-MEMORY:], moves[-MEMORY:])
        found = _round(np.exp(log_weights))
        if found.gap < best.gap:
            best = found
        elif found.gap > 4.0 * best.gap:  # mixing went astray: a plain step from where it stood
            log_weights = points[-1] + moves[-1]
            points, moves = [], []
            found = _round(np.exp(log_weights))
    return best


def _mixed(points: list[_Floats], moves: list[_Floats]) -> _Floats:
    """The combination of past points whose move is least, moved."""
    target = points[-1] + moves[-1]
    if len(points) == 1:
        return target
    change = np.diff(np.array(moves), axis=0).T
    weights = np.linalg.lstsq(change, moves[-1], rcond=1e-10)[0]
    mixed: _Floats = target - (np.diff(np.array(points), axis=0).T + change) @ weights
    return mixed


def _start(steps: int) -> _Floats:
    """``v`` of half as many steps, stretched; of few steps, that of the square root of ``A``."""
    if steps <= COARSE:
        root = toeplitz(square_root(steps), np.zeros(steps))
        gram = root.T @ root
        return np.diag(gram) / np.max(np.diag(gram)) * steps
    half = -(-steps // 2)
    coarse = _fixed_point(half)
    at = (np.arange(steps) + 0.5) / steps
    known = (np.arange(half) + 0.5) / half
    log_weights = np.interp(at, known, np.log(coarse.image))
    return np.exp(log_weights + math.log(half / steps))
