"""Algorithms, plans, problems and runs."""

from privopt.convex import Observer
from privopt.core.parameters import Mechanism
from privopt.core.plan import Algorithm, Plan, planner
from privopt.core.running import RunnableProblem, run, run_many
from privopt.core.runs import Execution, Run, Source, Steps, whole
from privopt.core.stepping import RunState, Stepper, stepper

__all__ = [
    "Algorithm",
    "Execution",
    "Mechanism",
    "Observer",
    "Plan",
    "Run",
    "RunState",
    "RunnableProblem",
    "Source",
    "Stepper",
    "Steps",
    "planner",
    "run",
    "run_many",
    "stepper",
    "whole",
]
