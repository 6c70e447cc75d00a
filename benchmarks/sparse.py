"""Projections onto the l1 ball, and basis pursuit: privopt and other projections and solvers.

    python benchmarks/sparse.py [--repeats 5]

Peers: sorts of a textbook, optax and jaxopt; HiGHS, Clarabel and SPGL1. One thread, processor
seconds. Projected are normal points, one with a million coordinates and a hundred with ten thousand
each. Systems are normal with a normal right-hand side, or that of a sparse vector with or without
noise. The points of peers are compared with the certified value: *excess* is ``||x||_1`` over it,
*residual* is ``||A x - b||``, both relative. In the larger case, HiGHS and Clarabel are timed once,
on noise only.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from peers import clarabel_cvxpy, linear_programming, spgl1_default
from peers.sorted_projections import PROJECTIONS
from timing import interleaved, print_measured, ratio

from privopt.convex import L1Ball, basis_pursuit

jax.config.update("jax_enable_x64", True)

DIM, ROWS, ROW_DIM = 1_000_000, 100, 10_000
RADII = (1.0, 1_000.0)
SYSTEMS = ((200, 2_000), (500, 10_000))
NOISE = 0.01
MAX_ROUND_ENTRIES = 1_000_000  # entries of a matrix; above it slow peers are timed once, on noise
SLOW = ("HiGHS", "Clarabel")
SOLVERS = {
    "HiGHS": linear_programming.least_l1,
    "Clarabel": clarabel_cvxpy.least_l1,
    "SPGL1": spgl1_default.least_l1,
}


class System(NamedTuple):
    """Linear system ``A x = b``."""

    kind: str
    matrix: np.ndarray
    right_hand_side: np.ndarray


def systems(rows: int, dim: int) -> list[System]:
    random = np.random.default_rng(0)
    matrix = random.normal(size=(rows, dim)) / np.sqrt(rows)
    vector = np.zeros(dim)
    vector[random.choice(dim, rows // 10, replace=False)] = random.normal(size=rows // 10)
    noise = random.normal(size=rows)
    sides = {
        "sparse": matrix @ vector,
        "sparse and noise": matrix @ vector + NOISE * noise,
        "noise": noise,
    }
    return [System(kind, matrix, side) for kind, side in sides.items()]


def ours(radius: float) -> Callable[[jax.Array], jax.Array]:
    return jax.jit(lambda point: L1Ball(radius).project(point))


def projections(dtype: type, radius: float, repeats: int) -> dict:
    """Measure one point, and its largest difference from the projection by a sort."""
    point = jnp.asarray(np.random.default_rng(0).normal(size=DIM), dtype)
    size = jnp.asarray(radius, dtype)
    project, calls = ours(radius), {}
    calls["privopt"] = lambda: project(point)
    for name, peer in PROJECTIONS.items():
        compiled = jax.jit(peer)
        calls[name] = lambda compiled=compiled: compiled(point, size)
    missed = abs(float(jnp.sum(jnp.abs(calls["privopt"]()).astype(jnp.float64))) / radius - 1.0)
    with jax.enable_x64(
        dtype is np.float64
    ):  # with float64 enabled, peers return it for float32 as well
        times = interleaved(calls, repeats, time.process_time)
    return {"dtype": dtype.__name__, "radius": radius, "missed": missed, **compared(times)}


def batches(dtype: type, repeats: int) -> dict:
    """Measure rows under ``vmap``, compared with single rows and with a sort under ``vmap``."""
    rows = jnp.asarray(np.random.default_rng(0).normal(size=(ROWS, ROW_DIM)), dtype)
    size = jnp.asarray(1.0, dtype)
    single = ours(1.0)
    batched = jax.jit(jax.vmap(ours(1.0)))
    ordered = jax.jit(jax.vmap(PROJECTIONS["a sort"], (0, None)))
    calls = {
        "privopt": lambda: batched(rows),
        "one at a time": lambda: [single(row) for row in rows],
        "a sort": lambda: ordered(rows, size),
    }
    return {"dtype": dtype.__name__, **compared(interleaved(calls, repeats, time.process_time))}


def solved(system: System, repeats: int) -> dict:
    matrix, b = system.matrix, system.right_hand_side
    best = basis_pursuit(matrix, b)
    value = float(jnp.sum(jnp.abs(best.point)))
    points = {}

    def call(name: str, solve: Callable[[], np.ndarray]) -> Callable[[], None]:
        def called() -> None:
            points[name] = np.asarray(solve())

        return called

    calls = {"privopt": call("privopt", lambda: basis_pursuit(matrix, b).point)}
    for name, peer in SOLVERS.items():
        calls[name] = call(name, lambda peer=peer: peer(matrix, b))
    slow = {}
    if matrix.size > MAX_ROUND_ENTRIES:
        slow = {name: calls.pop(name) for name in SLOW}
    times = interleaved(calls, repeats, time.process_time)
    for name, peer in slow.items() if system.kind == "noise" else ():
        start = time.process_time()
        peer()
        times[name] = [time.process_time() - start] * repeats
    accuracy = {
        name: {
            "excess": float(np.abs(point).sum() / value - 1.0),
            "residual": float(np.linalg.norm(matrix @ point - b) / np.linalg.norm(b)),
        }
        for name, point in points.items()
    }
    gap = float(best.gap) / value
    facts = {"kind": system.kind, "rows": matrix.shape[0], "dim": matrix.shape[1], "gap": gap}
    return {**facts, **compared(times), "accuracy": accuracy}


def compared(times: dict[str, list[float]]) -> dict:
    return {
        "seconds": {name: median(values) for name, values in times.items()},
        "ratios": {name: ratio(values, times["privopt"]) for name, values in times.items()},
        "all_seconds": times,
    }


def measure(repeats: int) -> dict:
    dtypes = (np.float32, np.float64)
    return {
        "projections": [
            projections(dtype, radius, repeats) for dtype in dtypes for radius in RADII
        ],
        "batches": [batches(dtype, repeats) for dtype in dtypes],
        "systems": [solved(system, repeats) for shape in SYSTEMS for system in systems(*shape)],
    }


if __name__ == "__main__":
    print_measured(measure, __doc__)
