"""Warm, interleaved times, by the wall clock or by the processor."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Mapping
from statistics import median
from typing import Any

import jax


def seconds(call: Callable[[], Any], clock: Callable[[], float] = time.perf_counter) -> float:
    """Return the seconds of one call, until its result is available."""
    start = clock()
    jax.block_until_ready(call())
    return clock() - start


def interleaved(
    calls: Mapping[str, Callable[[], Any]],
    repeats: int,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, list[float]]:
    """Return the seconds of every call in rounds: a change of load then affects all calls equally.

    ``time.process_time`` counts the work of this process only.
    """
    for call in calls.values():
        jax.block_until_ready(call())
    rounds = [{name: seconds(call, clock) for name, call in calls.items()} for _ in range(repeats)]
    return {name: [times[name] for times in rounds] for name in calls}


def ratio(slower: list[float], faster: list[float]) -> float:
    """Return the median over rounds of the ratio within a round."""
    return median(a / b for a, b in zip(slower, faster, strict=True))


def print_measured(measure: Callable[[int], Any], description: str | None) -> None:
    """Run a benchmark as a command: parse the number of repeats, and print the record as JSON."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--repeats", type=int, default=5)
    print(json.dumps(measure(parser.parse_args().repeats)))
