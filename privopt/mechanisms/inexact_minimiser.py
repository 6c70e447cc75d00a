"""Minimisers within a public distance of the exact one, on every data set."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple, Protocol

import jax
import jax.numpy as jnp
from jax import Array
from jax.tree_util import PyTreeDef

from privopt.convex import EmpiricalRisk, RegularisedGLM, accelerated_descent, newton_glm

MAX_DIM = 1024  # dimension: beyond it an eigenbasis costs more than it saves
MIN_DATA_NUMBERS = 2**18  # numbers in the data: with fewer, to compile costs more than to descend
REACHABLE_RESIDUAL = (
    4e-13  # of the Lipschitz constant: as far as float64 gets, whatever is asked for
)


class DataTerm(Protocol):
    """``F``, by its gradients: a ``ClippedGradient``."""

    @property
    def clip(self) -> float:
        """The bound on the gradient of a record."""

    def gradient_of(self, objective: EmpiricalRisk) -> Callable[[Array], Array]:
        """``w -> gradient`` on the device."""

    def linear_model(self, objective: EmpiricalRisk) -> RegularisedGLM | None:
        """The risk with that gradient, where it is one of a linear model in float64."""


class InexactMinimiser(NamedTuple):
    """``argmin_W F(w) + (lambda/2)|w - c|^2 + <t, w>``, to a distance ``tau``.

    There are two solvers. For a generalised linear model, :func:`privopt.convex.newton_glm`
    proposes a point ``w`` of ``W``, which is accepted where

        ``beta |w - Proj_W(w - grad J(w)/beta)| <= a tau / 2``

    (half is left to round-off). It is then within ``tau/2`` of the minimiser of ``J``, which is
    ``a``-strongly convex and ``beta``-smooth on ``W``, the regulariser included. Otherwise
    accelerated projected descent runs from ``Proj_W(c - t/lambda)`` for a public number of
    ``steps``, which end within ``tau`` whatever the data. *Both solvers end within* ``tau`` *of the
    same point on every data set*, and the sensitivity is charged for that distance. So the choice
    between them may depend on the data. (So does the running time.)
    """

    regularisation: float | Array
    strong_convexity: float | Array
    smoothness: float | Array
    error: float
    steps: int

    def solve(
        self, gradient: DataTerm, objective: EmpiricalRisk, centre: Array, tilt: Array | None
    ) -> Array:
        """The minimiser, shape ``(dim,)``.

        Under ``jax.vmap`` over tilts alone all are found together, by products of matrices; over
        anything else, one after another.

        Parameters
        ----------
        gradient : DataTerm
            Of ``F``.
        objective : EmpiricalRisk
            Its ``constraint`` is ``W``.
        centre, tilt : Array
            ``c`` and ``t``, shape ``(dim,)``; no tilt is 0.
        """
        tilts = jnp.zeros((1, centre.size), centre.dtype) if tilt is None else tilt[None]
        given = (self, gradient, objective, centre)
        model = gradient.linear_model(objective)
        if (
            model is None
            or math.prod(model.features.shape) < MIN_DATA_NUMBERS
            or centre.size > MAX_DIM
        ):
            steps = jnp.broadcast_to(self.steps, (1,))
            return _descents(*given, tilts, steps)[0]
        leaves, structure = jax.tree.flatten(given)
        return _together(structure)(tuple(map(jnp.asarray, leaves)), tilts)[0]


def _together(structure: PyTreeDef) -> Callable[[tuple[Array, ...], Array], Array]:
    """``(leaves, tilts) -> minimisers`` of shape ``(k, dim)``, to be vmapped as one call."""

    @jax.custom_batching.custom_vmap
    def together(leaves: tuple[Array, ...], tilts: Array) -> Array:
        numbers, gradient, objective, centre = jax.tree.unflatten(structure, leaves)
        return _minimisers(numbers, gradient, objective, centre, tilts)

    @together.def_vmap
    def rule(
        size: int, batched: tuple[tuple[bool, ...], bool], leaves: tuple[Array, ...], tilts: Array
    ) -> tuple[Array, bool]:
        varying, several = batched
        if not any(varying):
            found = together(leaves, tilts.reshape(-1, tilts.shape[-1]))
            return found.reshape(tilts.shape), True
        mapped = tuple(leaf for leaf, varies in zip(leaves, varying, strict=True) if varies)

        def one(arguments: tuple[tuple[Array, ...], Array | None]) -> Array:
            own, tilt = iter(arguments[0]), arguments[1]
            merged = (
                next(own) if varies else leaf for leaf, varies in zip(leaves, varying, strict=True)
            )
            return together(tuple(merged), tilts if tilt is None else tilt)

        return jax.lax.map(one, (mapped, tilts if several else None)), True

    return together


def _minimisers(
    numbers: InexactMinimiser,
    gradient: DataTerm,
    objective: EmpiricalRisk,
    centre: Array,
    tilts: Array,
) -> Array:
    """The certified ones, and accelerated descent for the rest; ``(k, dim)``."""
    ones = jnp.ones_like(tilts[:, 0])
    accepted = 0.5 * numbers.strong_convexity * numbers.error * ones
    model = gradient.linear_model(objective)
    assert model is not None
    found = newton_glm(
        model._replace(
            regularisation=numbers.regularisation * ones, linear_terms=tilts, centre=centre
        ),
        objective.constraint,
        objective.constraint.project(centre),
        smoothness=numbers.smoothness * ones,
        tolerance=jnp.minimum(accepted, REACHABLE_RESIDUAL * gradient.clip),
    )
    near = found.residuals <= accepted  # false where anything is not finite

    def otherwise() -> Array:
        steps = jnp.where(near, 0, numbers.steps)
        others = _descents(numbers, gradient, objective, centre, tilts, steps)
        return jnp.where(near[:, None], found.points, others)

    return jax.lax.cond(jnp.all(near), lambda: found.points, otherwise)


def _descents(
    numbers: InexactMinimiser,
    gradient: DataTerm,
    objective: EmpiricalRisk,
    centre: Array,
    tilts: Array,
    steps: Array,
) -> Array:
    """``steps[k]`` steps of accelerated descent from the minimiser of what is public."""
    data_term, project = gradient.gradient_of(objective), objective.constraint.project

    def descent(tilt: Array, steps: Array) -> Array:
        pulled = jnp.where(
            tilt == 0.0, 0.0, tilt / numbers.regularisation
        )  # untilted, lambda may be 0
        return accelerated_descent(
            lambda w: data_term(w) + tilt + numbers.regularisation * (w - centre),
            project,
            project(centre - pulled),
            smoothness=numbers.smoothness,
            strong_convexity=numbers.strong_convexity,
            steps=steps,
        )

    if tilts.shape[0] == 1:
        return descent(tilts[0], steps[0])[None]
    return jax.vmap(descent)(tilts, steps)
