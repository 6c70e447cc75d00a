"""One step of accelerated projected gradient, with what it proves."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from privopt.convex.certificate import ROUND_OFF, Certifier
from privopt.convex.vectors import norm

MIN_CURVATURE = 1e-100  # a step of its inverse has left any set; smaller would overflow


class Evaluation(NamedTuple):
    """``F`` at a point, and the smooth ``F_h`` with its derivatives in ``w`` and in ``h``."""

    objective: jax.Array
    value: jax.Array
    gradient: jax.Array
    slope: jax.Array


Evaluate = Callable[[jax.Array, jax.Array], Evaluation]


class State(NamedTuple):
    """Where the method stands: iterate, momentum, step size and width; best point and bound."""

    point: jax.Array
    extrapolation: jax.Array
    momentum: jax.Array
    curvature: jax.Array
    width: jax.Array
    best_point: jax.Array
    best_value: jax.Array
    lower_bound: jax.Array
    gradient_scale: jax.Array
    steps: jax.Array

    @property
    def gap(self) -> jax.Array:
        """Best value less best bound, with the round-off of the value."""
        certified = jnp.maximum(self.best_value - self.lower_bound, 0.0)
        return certified + ROUND_OFF * jnp.abs(self.best_value)


def initial(start: jax.Array, width: jax.Array, evaluate: Evaluate, certifier: Certifier) -> State:
    """Begin at the projection of ``start``, with a step that would cross the whole set."""
    point = certifier.constraint.project(start)
    here = evaluate(point, width)
    scale = norm(here.gradient)
    span = jnp.where(certifier.diameter > 0.0, certifier.diameter, 1.0)
    span = jnp.where(jnp.isfinite(span), span, 1.0 + norm(point))
    one = jnp.ones((), point.dtype)
    return State(
        point=point,
        extrapolation=point,
        momentum=one,
        curvature=jnp.where(scale > 0.0, scale, 1.0) / span,
        width=width,
        best_point=point,
        best_value=here.objective,
        lower_bound=-jnp.inf * one,
        gradient_scale=scale,
        steps=jnp.zeros((), int),
    )


def step(state: State, evaluate: Evaluate, certifier: Certifier) -> State:
    """One accepted step: extrapolate, search the step size, certify, restart or narrow."""
    project = certifier.constraint.project
    lead = state.point + (state.extrapolation - state.point) / state.momentum
    gradient = evaluate(lead, state.width).gradient
    scale = jnp.maximum(state.gradient_scale, norm(gradient))

    # The step is accepted when the curvature along it, measured by the change of the gradient
    # beyond its round-off, does not exceed the 1/step-size that was tried. Differences of values
    # would drown in round-off long before.
    def attempt(curvature: jax.Array) -> tuple[jax.Array, jax.Array, Evaluation, jax.Array]:
        point = project(lead - gradient / curvature)
        at_point = evaluate(point, state.width)
        move = point - lead
        square = move @ move
        bend = (at_point.gradient - gradient) @ move - ROUND_OFF * scale * norm(move)
        met = jnp.where(square > 0.0, bend / jnp.where(square > 0.0, square, 1.0), 0.0)
        return curvature, point, at_point, met

    curvature, point, here, met = jax.lax.while_loop(
        lambda tried: tried[3] > tried[0],
        lambda tried: attempt(2.0 * tried[0]),
        attempt(state.curvature),
    )

    decrease = certifier.decrease(point, here.gradient, scale)
    linearised = here.value - state.width * here.slope
    bound = linearised - decrease - ROUND_OFF * jnp.abs(here.value)
    tighter = (bound > state.lower_bound) & jnp.isfinite(bound)
    better = here.objective < state.best_value

    narrow = decrease < 0.25 * (here.objective - linearised)
    restart = ((lead - point) @ (point - state.point) > 0.0) | narrow
    extrapolation = project(state.point + state.momentum * (point - state.point))
    momentum = 0.5 + jnp.sqrt(0.25 + jnp.square(state.momentum))
    curvature = jnp.where(met < 0.25 * curvature, 0.5, 0.98) * curvature
    return State(
        point=point,
        extrapolation=jnp.where(restart, point, extrapolation),
        momentum=jnp.where(restart, 1.0, momentum),
        curvature=jnp.maximum(jnp.where(narrow, 4.0, 1.0) * curvature, MIN_CURVATURE),
        width=jnp.where(narrow, 0.25, 1.0) * state.width,
        best_point=jnp.where(better, point, state.best_point),
        best_value=jnp.where(better, here.objective, state.best_value),
        lower_bound=jnp.where(tighter, bound, state.lower_bound),
        gradient_scale=scale,
        steps=state.steps + 1,
    )
