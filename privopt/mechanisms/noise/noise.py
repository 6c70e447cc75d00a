"""What a kind of noise has to answer."""

from __future__ import annotations

from typing import Protocol

from dp_accounting import DpEvent
from jax import Array

from privopt.factorisations import Factorisation
from privopt.mechanisms.batches import Batches
from privopt.release import Pytree
from privopt.spec import Relation

__all__ = ["QUESTIONS", "Noise"]

QUESTIONS = ("begin", "next", "factorisation", "event")
"""What a noise answers."""


class Noise(Protocol):
    r"""What is added: ``z_t``, the increments of ``B xi`` with independent ``xi_s ~ N(0, I)``.

    Step ``t`` answers ``g_t + sigma z_t``. ``A = B C`` is a factorisation of the matrix of prefix
    sums, so the prefix sums of the answers are ``A g + sigma B xi = B (C g + sigma xi)``: a
    post-processing of one Gaussian mechanism, whose sensitivity is that of ``C`` under the
    participation of a record. For a square ``C`` this is ``z = C^{-1} xi``. Independent noise has
    ``C = I``; other lower triangular ``C`` remember.

    *Adaptivity*. ``g_t`` may depend on the answers before it. The noise is Gaussian and row ``t``
    of ``C g`` needs no gradient after ``g_t``, so the releases are as private as those for
    gradients fixed in advance (Denisov, McMahan, Rush, Smith and Thakurta 2022, arXiv:2202.08312,
    Theorem 2.1). *Vectors*. A record that moves ``g_i`` by vectors of unit norm moves ``C g`` by at
    most ``(\sum_{ij} |X_ij|)^{1/2}`` over its steps, ``X = C^T C``, whatever their directions.

    An implementation is a frozen dataclass registered as a pytree
    (:func:`privopt.convex.pytree_dataclass`), in a file of its own; its arrays enter by argument,
    and its factorisation is made of the very numbers that the device multiplies by. One whose
    ``xi_s`` are not normal, but independent and of mean zero, may say their ``variance``: 1 for
    those here. Without it no rate is claimed.
    """

    def begin(self, point: Pytree) -> Pytree:
        """Memory before the first step, for a ``point`` like the parameter; a pytree."""

    def next(self, memory: Pytree, t: Array, key: Array, like: Pytree) -> tuple[Pytree, Pytree]:
        """``(z_t, memory)``, ``z_t`` a pytree like ``like``, the gradient; ``t = 0, 1, ..``.

        ``key`` is that of the run: what step ``t`` draws comes from ``fold_in(key, t)``.
        """

    def factorisation(self, steps: int) -> Factorisation:
        """``A = B C`` of the first ``steps`` steps; on the host.

        Raises
        ------
        ValueError
            If the noise does not last so long.
        """

    def event(self, batches: Batches, multiplier: float, steps: int, relation: Relation) -> DpEvent:
        """What ``steps`` answers on these batches do to privacy.

        ``multiplier`` is ``sigma`` over the largest share of one record in an answer: a quotient
        without a unit, from 0 on. A calibration asks at many of them; at 0, where no noise is
        added, the answer is an event without privacy and not an error. Independent noise asks
        ``batches.composed``, noise with memory ``batches.participation``
        (:func:`privopt.mechanisms.participation_event`).

        Raises
        ------
        ValueError
            Where no theorem covers this noise on these batches, with the reason.
        """
