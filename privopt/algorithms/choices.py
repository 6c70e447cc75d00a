"""What methods whose guarantee rests on the loss ask of it."""

from __future__ import annotations

import math

from privopt.spec import ProblemClass

__all__ = ["require_convex_lipschitz"]


def require_convex_lipschitz(algorithm: str, problem_class: ProblemClass) -> None:
    """For methods whose very guarantee rests on convexity and ``L``: ValueError without them."""
    if not problem_class.convex:
        raise ValueError(
            f"convex must be True for {algorithm}, got False: its guarantee rests on convexity, "
            "while those of gradient methods (dp_gd, dp_sgd) hold for any loss"
        )
    if math.isinf(problem_class.lipschitz):
        raise ValueError(
            f"lipschitz must be declared for {algorithm}, got inf: its guarantee rests on it, "
            "and no clip norm stands in for it"
        )
