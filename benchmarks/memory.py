"""Memory of a hundred seeds in one call, besides the data, by two measures.

    python benchmarks/memory.py

*Process*: the peak resident size after the first call, including its compilation, minus the size
before. *Program*: temporaries and results of the compiled program, as reported by XLA.
"""

from __future__ import annotations

import json
import resource
import sys
from pathlib import Path
from types import SimpleNamespace

import jax
import workload
from jax import Array

from privopt import Plan, run_many
from privopt.problems import Problem

MEGABYTE = 1e6


def peak() -> float:
    """Return the largest resident size so far, in bytes."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def resident() -> float:
    """Return the current resident size in bytes, or the peak if the system has no other number."""
    statm = Path("/proc/self/statm")
    return int(statm.read_text().split()[1]) * resource.getpagesize() if statm.exists() else peak()


def allocated(plan: Plan, problem: Problem, keys: Array) -> float:
    """Return the bytes of temporaries and results; the data are an argument of the program."""

    def program(source, keys):
        setting = SimpleNamespace(
            source=source,
            objective=problem.objective,
            problem_class=problem.problem_class,
            provides=problem.provides,
            shape=problem.shape,
        )
        return run_many([plan], setting, keys)

    compiled = jax.jit(program).lower(problem.source, keys).compile()
    analysis = compiled.memory_analysis()
    return analysis.temp_size_in_bytes + analysis.output_size_in_bytes


def measure() -> dict:
    problem = workload.problem()
    plan, keys = workload.plan(problem), workload.fresh_keys()
    jax.block_until_ready((problem.data, keys))
    before = resident()
    jax.block_until_ready(run_many([plan], problem, keys))
    grown = peak() - before
    return {
        "process_megabytes": grown / MEGABYTE,
        "program_megabytes": allocated(plan, problem, keys) / MEGABYTE,
        "data_megabytes": sum(leaf.nbytes for leaf in jax.tree.leaves(problem.data)) / MEGABYTE,
    }


if __name__ == "__main__":
    print(json.dumps(measure()))
