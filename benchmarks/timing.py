"""Warm, interleaved times, by the clock or of the processor."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Mapping
from statistics import median
from typing import Any

import jax


def seconds(call: Callable[[], Any], clock: Callable[[], float] = time.perf_counter) -> float:
    """One call, until its result is there."""
    start = clock()
    jax.block_until_ready(call())
    return clock() - start


def interleaved(
    calls: Mapping[str, Callable[[], Any]],
    repeats: int,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, list[float]]:
    """Seconds of every call, in rounds, so that a change of load meets all alike.

    ``time.process_time`` counts what this process computes, whatever else the machine does.
    """
    for call in calls.values():
        jax.block_until_ready(call())
    rounds = [{name: seconds(call, clock) for name, call in calls.items()} for _ in range(repeats)]
    return {name: [times[name] for times in rounds] for name in calls}


def ratio(slower: list[float], faster: list[float]) -> float:
    """Median over rounds of the ratio within a round."""
    return median(a / b for a, b in zip(slower, faster, strict=True))


def print_measured(measure: Callable[[int], Any], description: str | None) -> None:
    """The command of a benchmark: how often is asked, and what is measured printed as JSON."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--repeats", type=int, default=5)
    print(json.dumps(measure(parser.parse_args().repeats)))
