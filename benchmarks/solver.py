"""Regularised logistic regression to a gradient of norm 1e-10: privopt and four kinds of L-BFGS.

    python benchmarks/solver.py [--repeats 5]

Peers: optax, jaxopt and scikit-learn. Float64, one thread. Features are on the unit sphere, either
isotropic, the best case of L-BFGS, or with a decaying spectrum. Peers in JAX receive two forms of
the objective, the usual one and one with a faster product with the transposed data, and the faster
form counts. NumPy evaluates the gradient norm of every returned point again.
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from peers import jaxopt_lbfgs, optax_lbfgs, scikit_learn
from timing import interleaved, print_measured, ratio

from privopt.convex import GLMSolution, RegularisedGLM, WholeSpace, as_features, newton_glm
from privopt.problems import Logistic

jax.config.update("jax_enable_x64", True)

TOLERANCE, STEPS, LINEAR_TERMS = 1e-10, 5_000, 100
SIZES = ((10_000, 100), (2_000, 5_000))
DECAYS = (0.0, 1.0)
REGULARISATIONS = (1e-2, 1e-3)
TERM_NORMS = (0.01, 0.05)
IN_JAX = {"optax": optax_lbfgs.minimise, "jaxopt": jaxopt_lbfgs.minimise}


class Case(NamedTuple):
    """Size of a problem; ``decay`` is the exponent of the scales of the coordinates."""

    size: int
    dim: int
    decay: float
    regularisation: float


def data(case: Case) -> tuple[Array, Array]:
    random = np.random.default_rng(0)
    features = random.normal(size=(case.size, case.dim))
    features *= np.arange(1, case.dim + 1) ** -case.decay
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    scores = 3.0 * features @ random.normal(size=case.dim)
    labels = np.sign(scores + random.logistic(size=case.size))
    return jnp.asarray(features), jnp.asarray(labels)


def linear_terms(dim: int) -> Array:
    random = np.random.default_rng(1)
    directions = random.normal(size=(LINEAR_TERMS, dim))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    return jnp.asarray(directions * random.uniform(*TERM_NORMS, size=(LINEAR_TERMS, 1)))


@jax.custom_vjp
def product(features: Array, point: Array) -> Array:
    """Return ``X w``, with the derivative computed as ``s X`` instead of ``X^T s``."""
    return features @ point


product.defvjp(lambda x, w: (x @ w, x), lambda x, s: (jnp.zeros_like(x), s @ x))
PRODUCTS: dict[str, Callable[[Array, Array], Array]] = {
    "plain": jnp.matmul,
    "given the faster product": product,
}


def peer(name: str, form: str) -> Callable[..., Array]:
    def solved(features: Array, labels: Array, regularisation: float, term: Array) -> Array:
        def value(point: Array) -> Array:
            margins = labels * PRODUCTS[form](features, point)
            losses = jnp.mean(jax.nn.softplus(-margins))
            return losses + 0.5 * regularisation * (point @ point) + term @ point

        return IN_JAX[name](value, jnp.zeros_like(term), TOLERANCE, STEPS)

    return jax.jit(solved)


def gradient_norm(case: Case, inputs: tuple[Array, Array], point: Array, term: Array) -> float:
    features, labels, point, term = (np.asarray(each) for each in (*inputs, point, term))
    slopes = -labels / (1.0 + np.exp(labels * (features @ point)))
    gradient = slopes @ features / case.size + case.regularisation * point + term
    return float(np.linalg.norm(gradient))


@jax.jit
def newton(
    features: Array, labels: Array, regularisation: float, linear_terms: Array
) -> GLMSolution:
    """Minimise from the origin. Records are in the unit ball, which bounds the smoothness."""
    rows, dim = features.shape
    ones, origin = jnp.ones(linear_terms.shape[0]), jnp.zeros(dim)
    lambdas = regularisation * ones
    glm = RegularisedGLM(
        loss=Logistic(),
        features=as_features(features),
        labels=labels,
        weights=jnp.full(rows, 1.0 / rows),
        regularisation=lambdas,
        linear_terms=linear_terms,
        centre=origin,
    )
    smoothness = lambdas + Logistic.curvature
    return newton_glm(glm, WholeSpace(), origin, smoothness=smoothness, tolerance=TOLERANCE * ones)


def ours(case: Case, inputs: tuple[Array, Array], terms: Array | None = None) -> Array:
    terms = jnp.zeros((1, case.dim)) if terms is None else terms
    return newton(*inputs, case.regularisation, terms).points


def one(case: Case, repeats: int) -> dict:
    """Measure the problem without a linear term, once."""
    inputs, none = data(case), jnp.zeros(case.dim)
    arrays = tuple(np.asarray(each) for each in inputs)
    calls: dict[str, Callable[[], Array]] = {"privopt": lambda: ours(case, inputs)[0]}
    for name in IN_JAX:
        for form in PRODUCTS:
            solve = peer(name, form)
            calls[f"{name}, {form}"] = lambda solve=solve: solve(*inputs, case.regularisation, none)
    calls["scikit-learn"] = lambda: scikit_learn.minimise(
        *arrays, case.regularisation, 1e-12, STEPS
    )
    norms = {name: gradient_norm(case, inputs, call(), none) for name, call in calls.items()}
    return {**case._asdict(), **compared(interleaved(calls, repeats)), "gradient_norms": norms}


def many(case: Case, fastest: str, repeats: int) -> dict:
    """Measure a hundred linear terms: one call of privopt, and a loop of the fastest peer."""
    inputs, terms = data(case), linear_terms(case.dim)
    solve = peer(*fastest.split(", "))
    calls = {
        "privopt": lambda: ours(case, inputs, terms),
        fastest: lambda: [solve(*inputs, case.regularisation, term) for term in terms],
    }
    norms = {
        name: max(
            gradient_norm(case, inputs, point, term)
            for point, term in zip(call(), terms, strict=True)
        )
        for name, call in calls.items()
    }
    return {**case._asdict(), **compared(interleaved(calls, repeats)), "gradient_norms": norms}


def compared(times: dict[str, list[float]]) -> dict:
    return {
        "seconds": {name: median(values) for name, values in times.items()},
        "ratios": {name: ratio(values, times["privopt"]) for name, values in times.items()},
        "all_seconds": times,
    }


def fastest_in_jax(result: dict) -> str:
    peers = {name: each for name, each in result["seconds"].items() if ", " in name}
    return min(peers, key=peers.__getitem__)


def measure(repeats: int) -> dict:
    cases = [
        Case(*size, decay, regularisation)
        for size in SIZES
        for decay in DECAYS
        for regularisation in REGULARISATIONS
    ]
    single = [one(case, repeats) for case in cases]
    several = [
        many(case, fastest_in_jax(result), max(1, repeats // 3))
        for case, result in zip(cases, single, strict=True)
        if case.dim < case.size
    ]
    return {"one": single, "many": several}


if __name__ == "__main__":
    print_measured(measure, __doc__)
