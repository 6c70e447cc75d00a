"""Private gradients that are projected onto a body: which one, and what theory says of the run."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from privopt.algorithms.choices import moments_of
from privopt.algorithms.first_order import (
    Optimiser,
    checked_update,
    horizon,
    is_plain,
    step_rule,
    steps_powers,
    unmoving,
)
from privopt.arguments import described
from privopt.convex import Average, AverageAfterStep, ConstraintSet, L1L2Ball, Output, StepSizes
from privopt.core import Plan
from privopt.mechanisms import (
    AllRecords,
    Batches,
    ClippedGradient,
    FixedSizeBatches,
    IndependentNoise,
    Noise,
    PrivateGradient,
)
from privopt.privacy import gaussian_mu
from privopt.spec import Budget, ProblemClass
from privopt.theory import (
    DefaultSteps,
    Rate,
    StepRule,
    biased_descent_step_size,
    inexact_descent_step_size,
    no_rate,
    projected_descent_rate,
    projected_descent_steps,
    projected_gradient,
)


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

    def horizon(
        self,
        problem_class: ProblemClass,
        budget: Budget,
        query: ClippedGradient,
        steps: int | None,
        *,
        noise: Noise | str | None,
        output: Output | str | None,
    ) -> DefaultSteps:
        """``T`` full gradients: as given; else at the least bound for projected gradients.

        Where no such bound applies, as many as without a projection.
        """
        known = self.sparse and not _obstacle(problem_class, noise, AllRecords())
        if steps is not None or not known:
            return horizon(problem_class, budget, query, steps, output=output)
        one_step = query.sensitivity(budget.relation) / gaussian_mu(budget.epsilon, budget.delta)
        smooth = problem_class.smoothness is not None
        return DefaultSteps(
            projected_descent_steps(
                problem_class, one_step_noise=one_step, clip=query.clip, smooth=smooth
            )
        )

    def numbers(
        self,
        problem_class: ProblemClass,
        mechanism: PrivateGradient,
        *,
        step_size: float | StepSizes | None,
        update: Optimiser | None,
        output: Output | str | None,
    ) -> tuple[float | StepSizes | None, Output | str | None]:
        """Step size and output: as given; else those of a theorem on projected gradients.

        Smooth losses and all records: ``1/(H + e sqrt(T)/R)`` and the average after each step, with
        ``e`` the error of one gradient. Else ``R/(L sqrt(T + 1))`` and the average of all points.
        """
        given = step_size is not None or output is not None or not is_plain(checked_update(update))
        if not self.sparse or given or _obstacle(problem_class, mechanism.noise, mechanism.batches):
            return step_size, output
        steps, clip = int(mechanism.steps), mechanism.query.clip
        error, square = projected_gradient(
            problem_class, noise_std=float(mechanism.scale), clip=clip
        )
        if problem_class.smoothness is not None and isinstance(mechanism.batches, AllRecords):
            step = inexact_descent_step_size(problem_class, steps=steps, error=error.value)
            return step, AverageAfterStep()
        step = biased_descent_step_size(problem_class, steps=steps, second_moment=square.value)
        return step, Average()


def projected_rate(plan: Plan) -> Rate:
    """What theory says of descent along gradients that are projected, and so biased."""
    params: Any = plan.params
    (mechanism, method), facts = params, plan.problem_class
    query, batches, known = mechanism.query, mechanism.batches, mechanism.post
    rule, smooth = step_rule(method.step_sizes), isinstance(method.output, AverageAfterStep)
    reason = unmoving(params) or _obstacle(facts, mechanism.noise, batches)
    sparse = facts.sparsity is not None and math.isfinite(query.clip)
    if not sparse or known != L1L2Ball.of(query.clip, facts.sparsity or 1):
        reason = "gradients are projected onto a set that may not hold their mean"
    elif query.changes(facts) or math.isinf(facts.lipschitz):
        reason = "gradients are clipped below the Lipschitz constant"
    elif not is_plain(method.update):
        reason = "the update is not plain descent"
    elif not mechanism.scale > 0.0:
        reason = "the theorem is for noise"
    elif not reason and rule != StepRule(rule.scale):
        reason = "no theorem for these step sizes with projected gradients"
    elif not reason and not (
        isinstance(method.output, Average) or (smooth and isinstance(batches, AllRecords))
    ):
        reason = "no theorem for this output with projected gradients"
    if reason:
        return no_rate(reason)
    default = Post(known, True).horizon(
        facts, plan.budget, query, None, noise=None, output=method.output
    )
    return projected_descent_rate(
        facts,
        steps=mechanism.steps,
        noise_std=mechanism.scale if mechanism.noise is not None else 0.0,
        clip=query.clip,
        step_size=rule.scale,
        smooth=smooth,
        steps_powers=steps_powers(plan, moments_of(batches, facts.n), default),
    )


def _obstacle(problem_class: ProblemClass, noise: Noise | str | None, batches: Batches) -> str:
    """Why no theorem covers projected gradients; empty if one may."""
    if not isinstance(noise, IndependentNoise | None) or getattr(noise, "variance", 1.0) != 1.0:
        return "the noise of steps is not independent and normal"
    if not isinstance(batches, AllRecords | FixedSizeBatches):
        return "batches are not of a fixed size, so that their means may leave the body"
    if not problem_class.convex:
        return "the losses are not convex"
    return "the set is not bounded" if math.isinf(problem_class.radius) else ""
