"""Benchmarks as fresh processes, with fixed cores and one thread per device."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def cores() -> list[int]:
    """Return the cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def can_pin() -> bool:
    return hasattr(os, "sched_setaffinity")


def start(
    script: str,
    *arguments: str,
    cores: Sequence[int],
    devices: int = 1,
    platform: str | None = "cpu",
) -> subprocess.Popen:
    """Run a script of this folder on ``cores``, with ``devices`` host devices.

    Without ``platform``, JAX selects the device.
    """
    flags = f"--xla_cpu_multi_thread_eigen=false --xla_force_host_platform_device_count={devices}"
    settings = {"XLA_FLAGS": flags, **dict.fromkeys(ONE_THREAD, "1")}
    if platform is not None:
        settings["JAX_PLATFORMS"] = platform
    with _pinned(cores):
        return subprocess.Popen(
            [sys.executable, str(HERE / script), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **settings},
        )


def measured(script: str, *arguments: str, cores: Sequence[int], **options: Any) -> dict:
    """Return the output of a script, one JSON object; ``options`` are those of ``start``."""
    process = start(script, *arguments, cores=cores, **options)
    output, _ = process.communicate()
    if process.returncode != 0:
        raise SystemExit(f"{script} failed with status {process.returncode}, see above")
    return json.loads(output)


def query(process: subprocess.Popen) -> list[float]:
    """Send a line to a process, and return the numbers of its answer."""
    process.stdin.write("\n")
    process.stdin.flush()
    answer = process.stdout.readline()
    if not answer:
        raise SystemExit(f"{process.args[1]} failed with status {process.wait()}, see above")
    return [float(word) for word in answer.split()]


@contextmanager
def _pinned(cores: Sequence[int]) -> Iterator[None]:
    """Set the cores of this thread; a child process inherits them."""
    if not can_pin():
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
