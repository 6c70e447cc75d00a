"""Suite of the solver of the one-shot methods, compared with L-BFGS of three libraries."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import process
from line import Line

TITLE = "Minimisers of linear models"
PACKAGES = ("privopt", "jax", "jaxlib", "optax", "jaxopt", "scikit-learn", "numpy")
PEERS = ("jaxopt",)
TOLERANCE = 1e-10


def measured(repeats: int) -> tuple[dict, list[Line]]:
    result = process.measured("solver.py", f"--repeats={repeats}", cores=process.cores()[-1:])
    return result, list(lines(result))


def described(result: dict) -> list[str]:
    return [
        "Regularised logistic loss, float64, one thread, to a gradient of norm 1e-10. Peers in JAX",
        "use the faster of two forms of the objective in every case. The stopping rules of",
        "scikit-learn end it earlier; the record contains the gradient norms of all solvers.",
    ]


def lines(result: dict) -> Iterator[Line]:
    tall = [case for case in result["one"] if case["dim"] < case["size"]]
    wide = [case for case in result["one"] if case["dim"] > case["size"]]
    yield compared("n = 10,000, d = 100, against L-BFGS in JAX", tall, in_jax, 1.5)
    yield compared("n = 10,000, d = 100, against scikit-learn", tall, scikit_learn, 2.0)
    yield compared("n = 2,000, d = 5,000, against L-BFGS in JAX", wide, in_jax, 1.3)
    yield compared("100 tilts in one call, against a loop", result["many"], in_jax, 5.0)
    reached = max(
        case["gradient_norms"]["privopt"] for kind in ("one", "many") for case in result[kind]
    )
    yield Line(
        "gradient norm, evaluated again",
        "the largest of all cases",
        f"{reached:.1e}",
        "<= 1.01e-10",
        reached <= 1.01 * TOLERANCE,
    )


def in_jax(case: dict) -> str:
    """Return the fastest peer in JAX."""
    peers = [name for name in case["seconds"] if ", " in name]
    return min(peers, key=case["seconds"].__getitem__)


def scikit_learn(case: dict) -> str:
    del case
    return "scikit-learn"


def compared(
    question: str, cases: list[dict], peer_of: Callable[[dict], str], target: float
) -> Line:
    least = min(cases, key=lambda case: case["ratios"][peer_of(case)])
    peer = peer_of(least)
    ours, theirs = (1e3 * least["seconds"][name] for name in ("privopt", peer))
    detail = (
        f"the least of {len(cases)} cases: {ours:,.1f} ms beside {theirs:,.1f} ms of {peer}, "
        f"lambda {least['regularisation']:g}, decay {least['decay']:g}"
    )
    ratio = least["ratios"][peer]
    return Line(question, detail, f"{ratio:.2f}x", f">= {target:g}x", ratio >= target)
