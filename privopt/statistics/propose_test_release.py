"""Propose a bound of the local sensitivity, test it privately, release only if it passes."""

from __future__ import annotations

import math
from typing import NamedTuple, Protocol

import jax
import jax.numpy as jnp
from dp_accounting import DpEvent
from jax import Array

from privopt import draws
from privopt.arguments import check_fields, positive_number, shown
from privopt.mechanisms.calibration import check_calibration, drawable, require_public_size
from privopt.privacy import approximate_event, round_up
from privopt.release import release
from privopt.spec import Budget, Relation
from privopt.statistics.events import pure_release, resolvable
from privopt.streams import as_key

_MARGIN = 1.0 + 2.0**-40  # relative; of a handful of elementary functions


class StableQuery(Protocol):
    """A query on data sets of a public size that knows how far a data set is from unstable ones."""

    def answer(self, records: Array) -> Array:
        """The answer on ``records``, of shape ``()``."""

    def distance_to_instability(self, records: Array, bound: float | Array) -> Array:
        """Fewest records to replace until some neighbour's answer is more than ``bound`` away.

        Moves by at most one when a record is replaced. Secret; shape ``()``.
        """


class Proposal(NamedTuple):
    """Whether the bound passed the test, and the noisy answer if it did, else NaN.

    Both have shape ``()`` and may be published: a refusal is an outcome like any other.
    """

    accepted: Array
    value: Array


class ProposeTestRelease(NamedTuple):
    """Release ``query(data) + Lap(b/epsilon_0)`` if ``gamma(data) + Lap(1/epsilon_0)`` is large.

    ``gamma`` is the distance to instability, ``b`` the ``bound``, the proposed local sensitivity,
    and large means above the ``threshold`` ``ln(1/(2 delta))/epsilon_0``. ``distance_scale`` and
    ``answer_scale`` are those of the two noises, which are always drawn. All are representable in
    float32.

    Formal guarantee
    ----------------
    ``(2 epsilon_0, delta)``-DP under ``replace_one``, ``delta < 1/2``. If the answers of two
    neighbours differ by more than ``b``, both have ``gamma = 0`` and pass with probability
    ``P(Lap(1/epsilon_0) > threshold) = delta``; else test and release cost ``epsilon_0`` each.
    Source: Dwork and Lei, "Differential privacy and robust statistics", STOC 2009; constants as
    derived here.

    Examples
    --------
    >>> from privopt.statistics import Median
    >>> budget = Budget(epsilon=1.0, delta=1e-6, relation="replace_one")
    >>> mechanism = ProposeTestRelease.calibrated(Median.of(0.0, 2.0), 0.1, budget)
    >>> bool(mechanism.release(jax.random.key(0), jnp.ones(200)).accepted)
    True
    """

    query: StableQuery
    bound: float
    distance_scale: float
    answer_scale: float
    threshold: float

    @classmethod
    def calibrated(cls, query: StableQuery, bound: float, budget: Budget) -> ProposeTestRelease:
        """The noise with which test and release together stay within ``budget``.

        Its relation must be ``replace_one``, its delta in ``(0, 1/2)``.
        """
        check_calibration(query, budget, "distance_to_instability")
        require_public_size(budget.relation, "propose-test-release")
        bound = positive_number("bound", bound)
        if not 0.0 < budget.delta < 0.5:
            raise ValueError(f"delta must lie in (0, 1/2), got {shown(budget.delta)}")
        bound = round_up(bound)
        left = drawable(budget, 2)
        scale = round_up(2.0 / resolvable(left.epsilon))
        threshold = scale * -math.log(2.0 * left.delta / _MARGIN) * _MARGIN
        return cls(query, bound, scale, round_up(bound * scale), round_up(threshold))

    def event(self, relation: Relation) -> DpEvent:
        """Return the privacy event of test and release together."""
        check_fields("mechanism", self)
        require_public_size(relation, "propose-test-release")
        if not (self.distance_scale > 0.0 and self.answer_scale > 0.0):
            return pure_release(math.inf)
        epsilon = (1.0 / self.distance_scale + self.bound / self.answer_scale) * (1.0 + 2.0**-50)
        passed = 0.5 * math.exp(-self.threshold / self.distance_scale) * (1.0 + 2.0**-50)
        if epsilon == math.inf or passed >= 1.0:
            return pure_release(math.inf)
        return approximate_event(epsilon, passed)

    def release(self, key: Array, records: Array) -> Proposal:
        """Return the outcome of the test and the release; a refusal is part of the release."""
        distance_key, answer_key = jax.random.split(as_key(key))
        distance = self.query.distance_to_instability(records, self.bound)
        answer = self.query.answer(records)
        dtype = answer.dtype
        distance += release("noise", self.distance_scale * draws.laplace(distance_key, (), dtype))
        answer += release("noise", self.answer_scale * draws.laplace(answer_key, (), dtype))
        accepted = distance > self.threshold
        return release("answer", Proposal(accepted, jnp.where(accepted, answer, jnp.nan)))
