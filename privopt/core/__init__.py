"""Where the two sides meet: a plan from public numbers, a problem with data, a run."""

from privopt.convex import Observer
from privopt.core.execution import Execution
from privopt.core.fitting import Problem
from privopt.core.outcome import Run, Source
from privopt.core.parameters import Mechanism
from privopt.core.plan import Algorithm, Plan, planner
from privopt.core.running import run, run_many

__all__ = [
    "Algorithm",
    "Execution",
    "Mechanism",
    "Observer",
    "Plan",
    "Problem",
    "Run",
    "Source",
    "planner",
    "run",
    "run_many",
]
