"""Private gradients that are projected onto a body: which one, and what theory says of the run."""

from __future__ import annotations

import math
from typing import NamedTuple

from privopt.algorithms.first_order import Optimiser, Params, checked_update, is_plain, step_rule
from privopt.arguments import described
from privopt.convex import Average, AverageAfterStep, ConstraintSet, L1L2Ball, Output, StepSizes
from privopt.mechanisms import (
    AllRecords,
    ClippedGradient,
    FixedSizeBatches,
    IndependentNoise,
    PrivateGradient,
)
from privopt.spec import ProblemClass
from privopt.theory import (
    GIVEN_STEPS,
    NoiseVector,
    Powers,
    Rate,
    StepRule,
    Term,
    biased_descent_rate,
    biased_descent_step_size,
    inexact_descent_rate,
    inexact_descent_step_size,
    no_rate,
    projected_error,
)

__all__ = ["Post"]


class Post(NamedTuple):
    """What private gradients are projected onto, at no cost in privacy.

    Attributes
    ----------
    body : ConstraintSet or None
    sparse : bool
        Whether it is ``{|v|_1 <= L sqrt(s), |v|_2 <= L}``, where means of gradients lie.
    """

    body: ConstraintSet | None
    sparse: bool

    @classmethod
    def of(
        cls, post: ConstraintSet | str | None, problem_class: ProblemClass, query: ClippedGradient
    ) -> Post:
        """From the choice of a plan.

        Raises
        ------
        ValueError
            If it is neither ``"sparse"`` nor a set; or ``"sparse"`` without declared ``sparsity``.
        """
        if post is None:
            return cls(None, False)
        if post == "sparse":
            if problem_class.sparsity is None:
                raise ValueError("sparsity must be declared for post='sparse', got None")
            return cls(L1L2Ball.of(query.clip, problem_class.sparsity), True)
        if isinstance(post, type) or not callable(getattr(post, "project", None)):
            raise ValueError(
                "post must be 'sparse', a constraint set or None, got "
                f"{repr(post) if isinstance(post, str) else described(post)}"
            )
        assert not isinstance(post, str)
        return cls(post, False)

    def numbers(
        self,
        problem_class: ProblemClass,
        mechanism: PrivateGradient,
        *,
        step_size: float | StepSizes | None,
        update: Optimiser | None,
        output: Output | str | None,
    ) -> tuple[float | StepSizes | None, Output | str | None]:
        """Step size and output: those given; else those of a theorem on projected gradients.

        Smooth losses and all records: ``1/(H + e sqrt(T)/R)`` and the average after each step, with
        ``e`` the error of one gradient. Else ``R/(L sqrt(T + 1))`` and the average of all points.
        """
        given = step_size is not None or output is not None or not is_plain(checked_update(update))
        if not self.sparse or given or self._obstacle(problem_class, mechanism):
            return step_size, output
        steps = int(mechanism.steps)
        if problem_class.smoothness is not None and isinstance(mechanism.batches, AllRecords):
            error = self._error(problem_class, mechanism, Powers()).value
            return inexact_descent_step_size(problem_class, steps=steps, error=error), (
                AverageAfterStep()
            )
        square = mechanism.query.clip**2
        return biased_descent_step_size(problem_class, steps=steps, second_moment=square), Average()

    def rate(
        self,
        problem_class: ProblemClass,
        params: Params,
        *,
        clipped: bool = False,
        steps_powers: Powers = GIVEN_STEPS,
        lower: float = 0.0,
    ) -> Rate:
        """What theory says of descent along gradients that are projected, and so biased."""
        mechanism, method = params
        assert isinstance(mechanism, PrivateGradient)
        rule = step_rule(method.step_sizes)
        reason = self._obstacle(problem_class, mechanism)
        if not self.sparse:
            reason = "gradients are projected onto a set that may not hold their mean"
        elif clipped or math.isinf(problem_class.lipschitz):
            reason = "gradients are clipped below the Lipschitz constant"
        elif not is_plain(method.update):
            reason = "the update is not plain descent"
        if reason or rule != StepRule(rule.scale):
            reason = reason or "no theorem for these step sizes with projected gradients"
            return no_rate(reason, lower=lower)
        error = self._error(problem_class, mechanism, steps_powers)
        steps, everyone = int(mechanism.steps), isinstance(mechanism.batches, AllRecords)
        match method.output:
            case AverageAfterStep() if everyone:
                return inexact_descent_rate(
                    problem_class,
                    steps=steps,
                    error=error,
                    step_size=rule.scale,
                    steps_powers=steps_powers,
                    lower=lower,
                )
            case Average():
                return biased_descent_rate(
                    problem_class,
                    steps=steps,
                    bias=Term("bias", math.sqrt(error.value), 0.5 * error.powers),
                    second_moment=Term("second moment", mechanism.query.clip**2),
                    step_size=rule.scale,
                    steps_powers=steps_powers,
                    lower=lower,
                )
        return no_rate("no theorem for this output with projected gradients", lower=lower)

    def _obstacle(self, problem_class: ProblemClass, mechanism: PrivateGradient) -> str:
        if not isinstance(mechanism.noise, IndependentNoise | None):
            return "the noise of steps is not independent"
        if not isinstance(mechanism.batches, AllRecords | FixedSizeBatches):
            return "batches are not of a fixed size, so that their means may leave the body"
        if not problem_class.convex:
            return "the losses are not convex"
        return "the set is not bounded" if math.isinf(problem_class.radius) else ""

    def _error(
        self, problem_class: ProblemClass, mechanism: PrivateGradient, steps_powers: Powers
    ) -> Term:
        """``e^2 >= E |g_t - mean|^2``; its noise moves like ``sqrt(T)/(n epsilon)``."""
        assert problem_class.sparsity is not None
        terms = projected_error(
            NoiseVector("gaussian", mechanism.scale, problem_class.dim),  # type: ignore[arg-type]
            body="l1_l2",
            clip=mechanism.query.clip,
            sparsity=problem_class.sparsity,
        )
        least = min(terms, key=lambda term: term.value)
        moved = least.powers + -0.5 * least.powers.n * steps_powers
        return Term("error", least.value, moved)
