"""Documents over a long-tailed vocabulary, drawn: sparse classification without data files."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from privopt.convex import SparseFeatures
from privopt.problems.indexed import Family
from privopt.problems.models import logistic
from privopt.problems.problem import Problem
from privopt.problems.sparse_records import declared_sparsity
from privopt.spec import ProblemClass

__all__ = ["VOCABULARY"]

_RADIUS = 10.0
_SHARPNESS = 3.0


def _vocabulary_logistic(
    *, n: int, dim: int, noise_ratio: float, strength: float, sparsity: int = 64
) -> Problem:
    """Logistic regression on documents of ``s`` draws from ``d`` words of Zipf's frequencies.

    Word ``j`` has probability proportional to ``1/j`` and a planted weight ``u_j``, an independent
    normal number. A word drawn ``k`` times has the entry ``k ln(1 + j)``, the logarithm of its
    inverse frequency up to a constant, as usual for texts; rows have norm 1. ``P(y = 1 | x) =
    sigmoid(3 <x, u>)`` and ``|w| <= 10``. A smaller ``n`` has the first documents of a larger one.
    """
    del noise_ratio, strength
    words = declared_sparsity(sparsity, dim)
    rng = np.random.default_rng([dim, words, 5])
    weights = rng.normal(size=dim)
    ranks = np.arange(1.0, dim + 1.0)
    below = np.cumsum(1.0 / ranks)
    drawn = np.searchsorted(below, below[-1] * rng.random((n, words)), side="right")
    drawn = np.minimum(drawn, dim - 1)
    rows = SparseFeatures(jnp.asarray(drawn), jnp.asarray(np.log1p(ranks)[drawn]), dim)
    rows = rows.scaled((1.0 - 2.0**-20) / rows.norms())
    scores = _SHARPNESS * np.asarray(rows.matvec(jnp.asarray(weights, rows.dtype)), np.float64)
    uniform = np.random.default_rng([dim, words, 6]).random(n)
    labels = np.where(uniform * (1.0 + np.exp(-scores)) < 1.0, 1.0, -1.0)
    facts = ProblemClass(
        n=n, dim=dim, lipschitz=1.0, radius=_RADIUS, smoothness=0.25, sparsity=words
    )
    return logistic(rows, labels, problem_class=facts, name="vocabulary_logistic")


VOCABULARY = Family(
    "vocabulary_logistic",
    f"logistic regression on drawn documents over a long-tailed vocabulary, |w| <= {_RADIUS:g}",
    _vocabulary_logistic,
)
