"""DP-GD for one seed and for a hundred seeds on one thread: privopt and jax-privacy.

    python benchmarks/dp_gd.py [--repeats 5]

Measured are seconds, also of the matrix products alone, the distance of the released points without
noise, and the standard deviations of the noise. Every call has other keys.
"""

from __future__ import annotations

from dataclasses import replace
from statistics import median

import jax
import jax.numpy as jnp
import workload
from peers.jax_privacy import Setting, descents
from timing import interleaved, print_measured, ratio

from privopt import Plan, run, run_many
from privopt.problems import Problem


def with_numbers(plan: Plan, *, noise_scale: float | None = None, steps: int | None = None) -> Plan:
    """Return the plan with other parameters, to compare computations. It is not private."""
    params = plan.params
    if noise_scale is not None:
        params = params._replace(mechanism=replace(params.mechanism, scale=noise_scale))
    if steps is not None:
        params = params._replace(mechanism=replace(params.mechanism, steps=steps))
    algorithm = replace(plan.algorithm, private=False)
    return replace(plan, algorithm=algorithm, params=params)


def setting_of(plan: Plan, problem: Problem) -> Setting:
    features, labels = problem.data
    mechanism, method = plan.params.mechanism, plan.params.descent
    return Setting(
        features=features,
        labels=labels,
        steps=mechanism.steps,
        step_size=float(method.step_sizes.scale),
        clip_norm=mechanism.query.clip_norm,
        noise_scale=mechanism.scale,
        radius=problem.problem_class.radius,
    )


def distance_without_noise(plan: Plan, problem: Problem, form: str) -> float:
    """Return the distance of the released points of both libraries without noise."""
    plan, key = with_numbers(plan, noise_scale=0.0), jax.random.key(0)
    ours = run(plan, problem, key).released
    theirs = descents(setting_of(plan, problem))[form](key).mean
    return float(jnp.linalg.norm(ours - theirs))


def noise_scales(plan: Plan, problem: Problem, form: str) -> tuple[float, float]:
    """Return the standard deviation of the noise of one gradient, in both libraries.

    After a single step from the centre, seeds differ by ``step_size`` times the noise only. The
    estimate has 400,000 numbers, so its standard error is 0.11%.
    """
    plan, keys = with_numbers(plan, steps=1), workload.fresh_keys(4_000)
    one_step = descents(setting_of(plan, problem))[form]
    ours = run_many([plan], problem, keys).secret.last[0]
    theirs = jax.lax.map(lambda key: one_step(key).point, keys)
    step_size = plan.params.descent.step_sizes.scale
    variances = [jnp.var(last, axis=0, ddof=1).mean() for last in (ours, theirs)]
    return tuple(float(jnp.sqrt(variance)) / step_size for variance in variances)


def measure(repeats: int) -> dict:
    problem = workload.problem()
    plan, products = workload.plan(problem), workload.products(problem)
    forms = descents(setting_of(plan, problem))
    calls = {
        form: (lambda descent=descent: descent(workload.fresh_keys(1)[0]))
        for form, descent in forms.items()
    }
    tried = {form: median(times) for form, times in interleaved(calls, repeats).items()}
    fastest = min(tried, key=tried.__getitem__)
    theirs = forms[fastest]
    times = interleaved(
        {
            "privopt, one seed": lambda: run(plan, problem, workload.fresh_keys(1)[0]),
            "jax-privacy, one seed": lambda: theirs(workload.fresh_keys(1)[0]),
            "privopt, all seeds": lambda: run_many([plan], problem, workload.fresh_keys()),
            "jax-privacy, all seeds": lambda: [theirs(key) for key in workload.fresh_keys()],
            "products, all seeds": lambda: products(workload.fresh_points()),
        },
        repeats,
    )
    ours_noise, theirs_noise = noise_scales(plan, problem, fastest)
    return {
        "seconds": {name: median(values) for name, values in times.items()},
        "all_seconds": times,
        "ratio_one_seed": ratio(times["jax-privacy, one seed"], times["privopt, one seed"]),
        "ratio_all_seeds": ratio(times["jax-privacy, all seeds"], times["privopt, all seeds"]),
        "ratio_products": ratio(times["products, all seeds"], times["privopt, all seeds"]),
        "fastest_form": fastest,
        "seconds_of_forms": tried,
        "distance_without_noise": distance_without_noise(plan, problem, fastest),
        "noise_scale": plan.params.mechanism.scale,
        "noise_scale_privopt": ours_noise,
        "noise_scale_jax_privacy": theirs_noise,
    }


if __name__ == "__main__":
    print_measured(measure, __doc__)
