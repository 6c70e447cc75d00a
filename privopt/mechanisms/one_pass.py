"""One pass over fresh records: an average iterate that no single record can move far."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import jax
from jax import Array

from privopt.arguments import instance, positive_number, shown
from privopt.convex import EmpiricalRisk, Oracle
from privopt.convex.vectors import Number
from privopt.mechanisms.batches.batches import present, require_numbered
from privopt.mechanisms.clipping import BatchSum
from privopt.mechanisms.queries import ClippedGradient
from privopt.privacy import round_down
from privopt.release import Pytree
from privopt.spec import Premises, ProblemClass, Relation


class OnePass(NamedTuple):
    """``(1/m) sum_t w_t`` of ``w_{t+1} = Proj(w_t - eta g_t(w_t))``, one fresh record a step.

    ``gradient`` is of single records, clipped at the declared ``L``; ``step_size`` is ``eta``,
    rounded down to float32.

    Examples
    --------
    >>> facts = ProblemClass(n=1000, dim=5, lipschitz=1.0, radius=1.0, smoothness=0.25)
    >>> round(OnePass.of(facts, step_size=0.5).sensitivity(Relation.REPLACE_ONE), 4)
    1.0
    """

    gradient: ClippedGradient
    step_size: float

    @classmethod
    def of(cls, problem_class: ProblemClass, step_size: float) -> OnePass:
        """The query for a class of problems."""
        instance("problem_class", problem_class, ProblemClass)
        step_size = positive_number("step_size", step_size)
        require_numbered("n", problem_class.n)
        smoothness = problem_class.smoothness
        if not problem_class.convex:
            raise ValueError(
                "problem_class.convex must be True, since one pass is private by convexity, "
                "got False"
            )
        if smoothness is None:
            raise ValueError(
                "smoothness must be declared, since one pass is private by it, got None"
            )
        if math.isinf(problem_class.lipschitz):
            raise ValueError("lipschitz must be declared for one pass to be private, got inf")
        if step_size * smoothness > 2.0:
            raise ValueError(
                f"step_size must be at most 2/smoothness = {shown(2.0 / smoothness)}, got "
                f"{shown(step_size)}"
            )
        return cls(ClippedGradient.of(problem_class), round_down(step_size))

    def sensitivity(self, relation: Relation) -> float:
        """``2 L eta`` under ``replace_one``, ``L eta`` under ``zero_out``, else infinite.

        *The step that sees the record* lands at most ``eta |g - g'|`` apart; that of a null record
        is the identity. *The steps before* do not see it, and *the steps after* bring no two
        iterates further apart: a gradient step of size ``eta <= 2/H`` on a convex ``H``-smooth
        loss does not, nor does a projection. So no iterate moves further, nor does their average.

        Clipping does a generalised linear loss no harm: ``clip(phi', -C/|x|, C/|x|)`` rises with
        the prediction, nowhere faster than ``phi'``, so it is the slope of a convex function and
        the step is one on a convex ``H``-smooth loss still. Clipped gradients of any other loss
        need not be the gradients of anything: that it is ``L``-Lipschitz, so that none is clipped,
        is assumed. A record that is not finite contributes zero, and its step is the identity.

        Arithmetic is taken as exact. Under ``add_or_remove_one`` the places of others change too.
        Infinite also if clipping does not preserve convexity.

        Source: Hardt, Recht and Singer 2016, Lemma 3.6 (non-expansive steps); Feldman, Koren and
        Talwar 2020.
        """
        relation, step_size = Relation(relation), positive_number("step_size", self.step_size)
        if relation is Relation.ADD_OR_REMOVE_ONE or not self.gradient.preserves_convexity:
            return math.inf
        return relation.multiple * step_size * self.gradient.contribution

    def premises(self, relation: Relation) -> Premises:
        """Convex losses with ``H <= 2/eta``, generalised linear or with ``L``."""
        return self.gradient.premises(relation) & Premises(
            convex=True,
            smoothness=2.0 / positive_number("step_size", self.step_size) * (1.0 + 2.0**-50),
            lipschitz=self.gradient.clip,
        )

    def oracle(self, losses: EmpiricalRisk, order: Array) -> OnePassAnswers:
        """The gradients of the records ``order``, numbers from ``0..n-1``, one after the other.

        They are not private: what is released of a pass is its average, with noise.
        """
        return OnePassAnswers(losses, order, self.gradient.batch_sums_of(losses))


@dataclass(frozen=True)
class OnePassAnswers(Oracle):
    """The clipped gradient of one fresh record in every step.

    The pass is over the records ``order[first : first + steps]``.
    """

    losses: EmpiricalRisk
    order: Array
    clipped_sum: BatchSum
    first: Number | int = 0
    steps: Number | int = 0

    def update(
        self, state: Pytree, t: Array, point: Pytree, batch: Pytree = None
    ) -> tuple[Pytree, Pytree]:
        record = jax.lax.dynamic_slice(self.order, (self.first + t,), (1,))
        row, taken = present(record, self.losses.records)
        return self.clipped_sum(point, row, taken.astype(self.losses.dtype)), state
