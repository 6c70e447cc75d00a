"""A plan on one screen."""

from __future__ import annotations

import math
from typing import Any

import jax
import numpy as np

from privopt.core.parameters import Parameters
from privopt.spec import ProblemClass

_NUMBERS = ("clip", "rate", "batch_size", "regularisation", "steps", "step_size")
_OF_A_CONTROL = ("control", "class", "guarantee", "assuming", "noise", "numbers")


def screen(plan: Any) -> str:
    """A plan as text: class, guarantee, noise, numbers and bounds, one a line."""
    facts, budget, rate = plan.problem_class, plan.budget, plan.rate
    spent = plan.guarantee.epsilon(budget.delta)
    noise, numbers = _noise_and_numbers(plan.params)
    trivial = facts.lipschitz * facts.radius
    rows = {
        "control": ""
        if plan.noise_factor is None
        else f"noise times {plan.noise_factor:g}: for "
        "experiments, never to be released; neither budget nor bound speaks of it",
        "class": ", ".join(f"{name} = {value:g}" for name, value in _declared(facts)),
        "guarantee": f"epsilon in [{spent.lower:.5g}, {spent.upper:.5g}] at delta "
        f"{budget.delta:g} under {budget.relation}",
        "remark": ""
        if budget.delta * facts.n <= 1.0
        else f"delta is above 1/n = {1.0 / facts.n:.4g}: to publish every record with probability "
        "delta, each by itself, is as private",
        "assuming": "; ".join(plan.guarantee.assumptions),
        "noise": noise,
        "numbers": numbers,
        "bound": f"{rate.quantity.formula} <= {rate.upper:.4g} for the {rate.quantity}",
        "lower bounds": "; ".join(rate.floors),
        "theorem": rate.theorem,
        "source": rate.source,
        "regime": rate.regime and f"{rate.regime} ({rate.local})",
        "without data": ""
        if math.isinf(trivial)
        else f"the centre c of the set has F(c) - F* <= L R = {trivial:.4g}",
    }
    told = rows if plan.noise_factor is None else {name: rows[name] for name in _OF_A_CONTROL}
    lines = [f"  {name:<14}{text}" for name, text in told.items() if text]
    return "\n".join([f"{plan.algorithm.name}: {plan.algorithm.summary}", *lines])


def _declared(facts: ProblemClass) -> list[tuple[str, float]]:
    """The facts that differ from their defaults."""
    silent = {"smoothness": None, "strong_convexity": 0.0, "sparsity": None, "convex": True}
    return [(name, x) for name, x in vars(facts).items() if x != silent.get(name, math.inf)]


def _noise_and_numbers(params: Parameters) -> tuple[str, str]:
    """The scale of every noise, and the other numbers of `_NUMBERS`."""
    noise: dict[str, float | np.ndarray] = {}
    numbers: dict[str, float | np.ndarray] = {}
    for path, number in jax.tree_util.tree_leaves_with_path(params):
        *_, owner, name = ("", *jax.tree_util.keystr(path, simple=True, separator=".").split("."))
        if name.endswith("scale") and owner != "step_sizes":
            noise[f"{owner}.{name}"] = number
        elif name in _NUMBERS or owner == "step_sizes":
            numbers.setdefault("step_size" if owner == "step_sizes" else name, number)
    return _listed(noise), _listed(numbers)


def _listed(numbers: dict[str, float | np.ndarray]) -> str:
    return ", ".join(f"{name} = {_told(number)}" for name, number in numbers.items())


def _told(number: float | np.ndarray) -> str:
    """A number, or the ends and the shape of an array."""
    if not isinstance(number, np.ndarray):
        return f"{number:.4g}"
    return f"{number.min():.4g} to {number.max():.4g} of shape {number.shape}"
