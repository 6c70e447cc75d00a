"""Differentially private convex optimisation in JAX: every rate is a test.

Rooms load on first use, so the host side (``spec``, ``privacy``, ``theory``) works, and starts
quickly, where JAX is not installed. ``lab`` and the command need the extra ``privopt[lab]``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

__all__ = [
    "ALGORITHMS",
    "Algorithm",
    "Budget",
    "Comparison",
    "Execution",
    "Guarantee",
    "Interval",
    "Plan",
    "ProblemClass",
    "Recommendation",
    "Relation",
    "Run",
    "RunState",
    "Stepper",
    "__version__",
    "accounting",
    "algorithms",
    "audit",
    "compare",
    "comparison",
    "convex",
    "core",
    "discrete",
    "draws",
    "estimators",
    "factorisations",
    "lab",
    "mechanisms",
    "privacy",
    "problems",
    "recommend",
    "recommendation",
    "release",
    "run",
    "run_many",
    "run_stream",
    "spec",
    "statistics",
    "stepper",
    "streams",
    "tables",
    "theory",
    "tuned",
]

if TYPE_CHECKING:
    from privopt import (
        accounting,
        algorithms,
        audit,
        comparison,
        convex,
        core,
        discrete,
        draws,
        estimators,
        factorisations,
        lab,
        mechanisms,
        privacy,
        problems,
        recommendation,
        release,
        spec,
        statistics,
        streams,
        tables,
        theory,
    )
    from privopt.algorithms import ALGORITHMS
    from privopt.comparison import Comparison, compare
    from privopt.core import (
        Algorithm,
        Execution,
        Plan,
        Run,
        RunState,
        Stepper,
        run,
        run_many,
        stepper,
    )
    from privopt.privacy import Guarantee, Interval
    from privopt.reading import run_stream
    from privopt.recommendation import Recommendation, recommend
    from privopt.spec import Budget, ProblemClass, Relation
    from privopt.tuning import tuned

    __version__: str
else:
    _ROOM_OF = {
        **dict.fromkeys(("Budget", "ProblemClass", "Relation"), "spec"),
        **dict.fromkeys(("Guarantee", "Interval"), "privacy"),
        **dict.fromkeys(("Algorithm", "Execution", "Plan", "Run", "RunState", "Stepper"), "core"),
        **dict.fromkeys(("run", "run_many", "stepper"), "core"),
        **dict.fromkeys(("Comparison", "compare"), "comparison"),
        "run_stream": "reading",
        "tuned": "tuning",
        **dict.fromkeys(("Recommendation", "recommend"), "recommendation"),
        "ALGORITHMS": "algorithms",
    }

    _OF_THE_LAB = {"matplotlib", "pandas", "pyarrow", "rich", "sklearn", "typer"}

    def __getattr__(name):
        """Load the room that a public name lives in, on first use."""
        try:
            return _load(name)
        except ModuleNotFoundError as error:
            if error.name in _OF_THE_LAB:
                error.msg += "; it comes with the extra lab: pip install 'privopt[lab]'"
            raise

    def _load(name):
        if name == "__version__":
            value = import_module("importlib.metadata").version(__name__)
        elif name in _ROOM_OF:
            value = getattr(import_module(f"{__name__}.{_ROOM_OF[name]}"), name)
        elif name in __all__:
            return import_module(f"{__name__}.{name}")
        else:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        globals()[name] = value
        return value

    def __dir__():
        """The public names, loaded or not."""
        return sorted({*globals(), *__all__})
