"""Where the two sides meet: a plan from public numbers, a problem with data, a run."""

from privopt.core.plan import Algorithm, Objective, Plan, Run, Source, planner
from privopt.core.running import run, run_many

__all__ = ["Algorithm", "Objective", "Plan", "Run", "Source", "planner", "run", "run_many"]
