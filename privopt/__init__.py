"""Differentially private convex optimisation in JAX: its bounds are tested by experiments.

Packages load on first use. The host side (``spec``, ``privacy``, ``theory``) therefore starts
quickly and works without JAX. ``lab`` and the command need the extra ``privopt[lab]``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

__all__ = [
    "ALGORITHMS",
    "Algorithm",
    "Batching",
    "Budget",
    "Comparison",
    "Descent",
    "Execution",
    "Guarantee",
    "Interval",
    "Plan",
    "ProblemClass",
    "Relation",
    "Run",
    "RunState",
    "Stepper",
    "__version__",
    "accelerated_dp_gd",
    "accounting",
    "algorithms",
    "approximate_minima_perturbation",
    "audit",
    "bias_reduced_sgd",
    "compare",
    "comparison",
    "convex",
    "core",
    "discrete",
    "dp_ftrl",
    "dp_gd",
    "dp_sgd",
    "dp_svrg",
    "estimators",
    "exponential_mechanism",
    "factorisations",
    "gradient_descent",
    "keep_programs",
    "l1_recovery",
    "lab",
    "linf_output_perturbation",
    "mechanisms",
    "noisy_adam",
    "objective_perturbation",
    "output_perturbation",
    "phased_sgd",
    "privacy",
    "problems",
    "projection_mechanism",
    "random",
    "recommend",
    "release",
    "run",
    "run_many",
    "run_stream",
    "spec",
    "statistics",
    "stepper",
    "sufficient_statistics",
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
        estimators,
        factorisations,
        lab,
        mechanisms,
        privacy,
        problems,
        random,
        release,
        spec,
        statistics,
        theory,
    )
    from privopt.algorithms import ALGORITHMS, Batching, Descent
    from privopt.algorithms.accelerated_dp_gd import accelerated_dp_gd
    from privopt.algorithms.approximate_minima_perturbation import approximate_minima_perturbation
    from privopt.algorithms.bias_reduced_sgd import bias_reduced_sgd
    from privopt.algorithms.dp_ftrl import dp_ftrl
    from privopt.algorithms.dp_gd import dp_gd
    from privopt.algorithms.dp_sgd import dp_sgd
    from privopt.algorithms.dp_svrg import dp_svrg
    from privopt.algorithms.exponential_mechanism import exponential_mechanism
    from privopt.algorithms.gradient_descent import gradient_descent
    from privopt.algorithms.l1_recovery import l1_recovery
    from privopt.algorithms.linf_output_perturbation import linf_output_perturbation
    from privopt.algorithms.noisy_adam import noisy_adam
    from privopt.algorithms.objective_perturbation import objective_perturbation
    from privopt.algorithms.output_perturbation import output_perturbation
    from privopt.algorithms.phased_sgd import phased_sgd
    from privopt.algorithms.projection_mechanism import projection_mechanism
    from privopt.algorithms.sufficient_statistics import sufficient_statistics
    from privopt.comparison import Comparison, compare, recommend
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
    from privopt.programs import keep_programs
    from privopt.reading import run_stream
    from privopt.spec import Budget, ProblemClass, Relation
    from privopt.tuning import tuned

    __version__: str
else:
    _PACKAGE_OF = {
        **dict.fromkeys(("Budget", "ProblemClass", "Relation"), "spec"),
        **dict.fromkeys(("Guarantee", "Interval"), "privacy"),
        **dict.fromkeys(("Algorithm", "Execution", "Plan", "Run", "RunState", "Stepper"), "core"),
        **dict.fromkeys(("run", "run_many", "stepper"), "core"),
        **dict.fromkeys(("Comparison", "compare", "recommend"), "comparison"),
        "keep_programs": "programs",
        "run_stream": "reading",
        "tuned": "tuning",
        **dict.fromkeys(("ALGORITHMS", "Batching", "Descent"), "algorithms"),
    }

    _LAB_DEPENDENCIES = {"matplotlib", "pandas", "pyarrow", "rich", "sklearn", "typer"}

    def __getattr__(name):
        """Load the package of a public name on first use."""
        try:
            return _load(name)
        except ModuleNotFoundError as error:
            if error.name in _LAB_DEPENDENCIES:
                error.msg += "; it comes with the extra lab: pip install 'privopt[lab]'"
            raise

    def _load(name):
        if name == "__version__":
            value = import_module("importlib.metadata").version(__name__)
        elif name in _PACKAGE_OF:
            value = getattr(import_module(f"{__name__}.{_PACKAGE_OF[name]}"), name)
        elif name in __all__:
            try:
                return import_module(f"{__name__}.{name}")
            except ModuleNotFoundError as error:
                if error.name != f"{__name__}.{name}":
                    raise
            value = getattr(import_module(f"{__name__}.algorithms"), name)  # returns a plan
        else:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        globals()[name] = value
        return value

    def __dir__():
        """Return the public names, loaded or not."""
        return sorted({*globals(), *__all__})
