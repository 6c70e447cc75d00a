"""Selection from a finite public set: the largest of noisy scores, of which only the index leaves.

One mechanism, three laws of noise. Source of the laws: McSherry and Talwar, "Mechanism design via
differential privacy", FOCS 2007 (exponential mechanism); Dwork and Roth, "The algorithmic
foundations of differential privacy", 2014, Claim 3.9 (Laplace); McKenna and Sheldon,
"Permute-and-flip", NeurIPS 2020 (arXiv:2010.12603), and Ding, Kifer et al., "The permute-and-flip
mechanism is identical to report-noisy-max with exponential noise", 2021 (arXiv:2105.07260).
"""

from __future__ import annotations

import math
from typing import NamedTuple, TypeVar

import jax.numpy as jnp
from dp_accounting import DpEvent
from jax import Array
from jax.typing import DTypeLike
from scipy.special import lambertw

from privopt import draws
from privopt.mechanisms.calibration import check_calibration
from privopt.privacy import BoundedRangeDpEvent, round_up
from privopt.release import release
from privopt.spec import Budget, Relation
from privopt.statistics.events import pure_release, resolvable
from privopt.statistics.scores import ScoreQuery

__all__ = ["ExponentialMechanism", "PermuteAndFlip", "ReportNoisyMax"]

_Mechanism = TypeVar("_Mechanism", bound="_NoisyArgmax")


class _NoisyArgmax(NamedTuple):
    """``argmax_y q(y) + b Z_y`` with independent ``Z_y``, whose law a subclass gives.

    Formal guarantee
    ----------------
    ``r/b``-DP with ``r = query.score_range(relation)``, if the law's hazard rate is at most 1.
    Shift all scores of one data set by a constant, which changes no argmax, so that going to the
    neighbour raises every score by some number in ``[0, r]``. Fix all noise but that of ``y``:
    then ``y`` wins if ``b Z_y`` exceeds a threshold, the neighbour's differs by at most ``r``, and
    over a distance ``s`` the probability ``P(Z > t)`` falls to no less than ``e^-s`` of itself.
    """

    query: ScoreQuery
    scale: float

    @classmethod
    def calibrated(cls: type[_Mechanism], query: ScoreQuery, budget: Budget) -> _Mechanism:
        """The least noise with which one selection stays within ``budget.epsilon``.

        ``b = r/epsilon``: ``2 Delta/epsilon`` for scores of sensitivity ``Delta``,
        ``Delta/epsilon`` for monotone ones. ``budget.delta`` is not spent.

        Raises
        ------
        ValueError
            If the scores have no finite range under ``budget.relation``.
        """
        check_calibration(query, budget, "score_range")
        scores = query.score_range(budget.relation)
        if not math.isfinite(scores):
            raise ValueError(
                f"query must have a finite score range under {budget.relation}, got {scores!r}"
            )
        return cls(query, round_up(scores / resolvable(budget.epsilon)))

    def loss(self, relation: Relation) -> float:
        """``epsilon = r/b`` of one selection, rounded up."""
        scores = self.query.score_range(relation)
        if scores == 0.0:
            return 0.0
        return math.nextafter(scores / self.scale, math.inf) if self.scale > 0.0 else math.inf

    def event(self, relation: Relation) -> DpEvent:
        """What one selection does to privacy."""
        return pure_release(self.loss(relation))

    def select(self, key: Array, scores: Array) -> Array:
        """The index of the candidate that is released, an integer array of shape ``()``.

        Parameters
        ----------
        key : Array
            Typed key from ``jax.random.key``.
        scores : Array
            Shape ``(candidates,)``, floating; noise is drawn in its dtype. Minus infinity
            excludes a candidate, which must not depend on the data.

        Raises
        ------
        ValueError
            If ``scores`` is not a non-empty vector of a floating type.
        """
        if scores.ndim != 1 or scores.size == 0 or not jnp.issubdtype(scores.dtype, jnp.floating):
            raise ValueError(
                "scores must be a non-empty vector of a floating type, got "
                f"{scores.dtype} of shape {scores.shape}"
            )
        # Relative to the best, so that noise is not lost in the digits that all scores share.
        gaps = scores - scores.max()
        noise = release("noise", self.scale * self.noise(key, scores.shape, scores.dtype))
        return release("selection", jnp.argmax(gaps + noise))

    @staticmethod
    def noise(key: Array, shape: tuple[int, ...], dtype: DTypeLike) -> Array:
        """Independent draws of the law."""
        raise NotImplementedError


class ExponentialMechanism(_NoisyArgmax):
    """``P(y)`` proportional to ``exp(q(y)/b)``, drawn as ``argmax_y q(y) + b Gumbel``.

    Attributes
    ----------
    query : ScoreQuery
        The scores' bounds, with their range ``r``.
    scale : float
        ``b``, representable in float32.

    Formal guarantee
    ----------------
    ``r/b``-DP; indeed ``r/b``-*bounded range*: between neighbours, ``ln P(y)/P'(y)`` varies over
    ``y`` by ``r/b`` at most. The Gumbel law's hazard ``x/(e^x - 1)``, ``x = e^-z``, is below 1.

    Examples
    --------
    >>> import jax, jax.numpy as jnp
    >>> from privopt import Budget
    >>> from privopt.statistics import BoundedScores, ExponentialMechanism
    >>> budget = Budget(epsilon=1.0, delta=0.0, relation="replace_one")
    >>> mechanism = ExponentialMechanism.calibrated(BoundedScores.of(1.0), budget)
    >>> int(mechanism.select(jax.random.key(0), jnp.array([0.0, 100.0])))
    1
    """

    __slots__ = ()

    def bounded_range_event(self, relation: Relation) -> DpEvent:
        """The bounded-range view of one selection, ``(epsilon^2/8)``-zCDP: a quarter of pure DP's.

        For compositions, where it is the tighter; by itself ``event`` is.
        Source: Cesar and Rogers, "Bounding, concentrating, and truncating", ALT 2021
        (arXiv:2004.07223).
        """
        epsilon = self.loss(relation)
        if epsilon == 0.0 or math.isinf(epsilon):
            return self.event(relation)
        return BoundedRangeDpEvent(epsilon)

    def gap_bound(self, candidates: int, failure: float, *, optimal: int = 1) -> float:
        """``g`` with ``P(q* - q(selected) >= g) <= failure``: ``b ln(k/(m failure))``.

        ``k`` candidates, ``m = optimal`` of them with the best score ``q*``. In expectation the
        gap is at most ``b (ln(k/m) + 1)``. Source: Dwork and Roth 2014, Theorem 3.11.

        Raises
        ------
        ValueError
            If ``failure`` is not in ``(0, 1)``, or ``optimal`` not in ``[1, candidates]``.
        """
        _check(candidates, failure, optimal)
        return self.scale * math.log(candidates / (optimal * failure))

    @staticmethod
    def noise(key: Array, shape: tuple[int, ...], dtype: DTypeLike) -> Array:
        """Gumbel: ``P(Z <= z) = exp(-e^-z)``."""
        return draws.gumbel(key, shape, dtype)


class PermuteAndFlip(_NoisyArgmax):
    """Candidates in random order, each taken with probability ``exp((q(y) - q*)/b)``.

    Drawn as ``argmax_y q(y) + b Z_y`` with exponential ``Z_y``, which has the same law, and a
    program whose length does not depend on the scores.

    Attributes
    ----------
    query : ScoreQuery
        The scores' bounds, with their range ``r``.
    scale : float
        ``b``, representable in float32.

    Formal guarantee
    ----------------
    ``r/b``-DP: the exponential law's hazard is 1, and 0 left of the origin.

    Examples
    --------
    >>> import jax, jax.numpy as jnp
    >>> from privopt import Budget
    >>> from privopt.statistics import BoundedScores, PermuteAndFlip
    >>> budget = Budget(epsilon=1.0, delta=0.0, relation="replace_one")
    >>> mechanism = PermuteAndFlip.calibrated(BoundedScores.of(1.0), budget)
    >>> int(mechanism.select(jax.random.key(0), jnp.array([0.0, 100.0])))
    1
    """

    __slots__ = ()

    def gap_bound(self, candidates: int, failure: float, *, optimal: int = 1) -> float:
        """``g`` with ``P(q* - q(selected) >= g) <= failure``: ``b ln[(k-m)/((m+1) failure)]``.

        A candidate ``g`` below the best wins only if its noise exceeds the largest of ``m``
        exponentials by ``g/b``, which has probability ``e^(-g/b)/(m+1)``; and there are ``k-m``.

        Raises
        ------
        ValueError
            If ``failure`` is not in ``(0, 1)``, or ``optimal`` not in ``[1, candidates]``.
        """
        _check(candidates, failure, optimal)
        others = (candidates - optimal) / ((optimal + 1) * failure)
        return self.scale * math.log(others) if others > 1.0 else 0.0

    @staticmethod
    def noise(key: Array, shape: tuple[int, ...], dtype: DTypeLike) -> Array:
        """Exponential: ``P(Z > z) = e^-z`` for ``z >= 0``."""
        return draws.exponential(key, shape, dtype)


class ReportNoisyMax(_NoisyArgmax):
    """``argmax_y q(y) + b Laplace``; the noisy maximum itself stays secret.

    Attributes
    ----------
    query : ScoreQuery
        The scores' bounds, with their range ``r``.
    scale : float
        ``b``, representable in float32.

    Formal guarantee
    ----------------
    ``r/b``-DP: the Laplace law's hazard is 1 right of the origin and less left of it.

    Examples
    --------
    >>> import jax, jax.numpy as jnp
    >>> from privopt import Budget
    >>> from privopt.statistics import BoundedScores, ReportNoisyMax
    >>> budget = Budget(epsilon=1.0, delta=0.0, relation="replace_one")
    >>> mechanism = ReportNoisyMax.calibrated(BoundedScores.of(1.0), budget)
    >>> int(mechanism.select(jax.random.key(0), jnp.array([0.0, 100.0])))
    1
    """

    __slots__ = ()

    def gap_bound(self, candidates: int, failure: float, *, optimal: int = 1) -> float:
        """``g`` with ``P(q* - q(selected) >= g) <= failure``.

        Two independent Laplace variables differ by more than ``x`` to one side with probability
        ``(1 + x/2) e^-x / 2``; a union bound over the ``k-m`` candidates that are not the best,
        solved for ``x = g/b``.

        Raises
        ------
        ValueError
            If ``failure`` is not in ``(0, 1)``, or ``optimal`` not in ``[1, candidates]``.
        """
        _check(candidates, failure, optimal)
        if candidates - optimal <= 2.0 * failure:
            return 0.0
        share = 2.0 * failure / (candidates - optimal)  # (1 + x/2) e^-x
        return self.scale * (-float(lambertw(-2.0 * share * math.exp(-2.0), -1).real) - 2.0)

    @staticmethod
    def noise(key: Array, shape: tuple[int, ...], dtype: DTypeLike) -> Array:
        """Laplace: ``P(|Z| > z) = e^-z``."""
        return draws.laplace(key, shape, dtype)


def _check(candidates: int, failure: float, optimal: int) -> None:
    if not 0.0 < failure < 1.0:
        raise ValueError(f"failure must lie in (0, 1), got {failure!r}")
    if not 1 <= optimal <= candidates:
        raise ValueError(f"optimal must lie in [1, {candidates}], got {optimal!r}")
