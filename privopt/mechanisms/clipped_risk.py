"""The risk as a bounded query: differences of its values, with every record's loss clipped."""

from __future__ import annotations

import math
from typing import NamedTuple

from jax import Array

from privopt.arguments import instance
from privopt.convex import EmpiricalRisk, ValueAndGradient
from privopt.convex.vectors import Number
from privopt.mechanisms.moved_losses import moved_loss_sum
from privopt.mechanisms.queries import ClippedGradient
from privopt.privacy import round_up
from privopt.spec import Premises, ProblemClass, Relation


class ClippedRisk(NamedTuple):
    """The risk as a function of the parameter, every record's loss ``C``-Lipschitz, over public n.

    ``gradient`` is the query whose answers are the gradients of this one; the constraint set lies
    in a ball of ``radius`` ``R``.

    Examples
    --------
    >>> risk = ClippedRisk.of(ProblemClass(n=1000, dim=2, lipschitz=1.0, radius=3.0))
    >>> round(risk.range(Relation.REPLACE_ONE), 6)
    0.012
    """

    gradient: ClippedGradient
    radius: float

    @classmethod
    def of(cls, problem_class: ProblemClass) -> ClippedRisk:
        """The query for a class of problems of finite radius."""
        instance("problem_class", problem_class, ProblemClass)
        if math.isinf(problem_class.radius):
            raise ValueError("radius must be finite, got inf")
        return cls(ClippedGradient.of(problem_class), round_up(problem_class.radius))

    def sensitivity(self, relation: Relation) -> float:
        """``G``: the difference of two neighbours' risks is ``G``-Lipschitz in the parameter.

        ``2L/n`` under ``replace_one``: the difference of two losses over ``n``. ``L/n`` under
        ``zero_out`` and under ``add_or_remove_one``, where ``n`` is the public design size: a
        single loss over ``n``. Clipping enforces it for generalised linear losses, whatever
        the data; of any other loss it is assumed.
        """
        return self.gradient.sensitivity(relation)

    def range(self, relation: Relation) -> float:
        """``2 R G``: largest minus smallest value of that difference over the constraint set.

        For every loss and all data, as computed: no record contributes more than ``L |w - c|``.
        """
        if not self.radius > 0.0:
            raise ValueError(f"radius must be positive, got {self.radius!r}")
        return 2.0 * self.radius * self.sensitivity(relation)

    def premises(self, relation: Relation) -> Premises:
        """Convex, ``L``-Lipschitz losses over the ball of that radius."""
        return self.gradient.premises(relation) & Premises(
            convex=True,
            lipschitz=self.gradient.clip,
            radius=self.radius,
            n=self.gradient.size,
        )

    def risk_of(
        self, objective: EmpiricalRisk, centre: Array, resolution: Number
    ) -> ValueAndGradient:
        """``w -> (F(w) - F(c), gradient)``, each record's loss within ``resolution`` of convex."""
        clip, size = self.gradient.clip, self.gradient.size
        total = moved_loss_sum(objective, clip, centre, self.radius, resolution)

        def risk(point: Array) -> tuple[Array, Array]:
            value, gradient = total(point)
            return value / size, gradient / size

        return risk
