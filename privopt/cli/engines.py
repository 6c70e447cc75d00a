"""Engines that start the workers of a sweep, on one machine or on several.

A worker runs cells of the results folder until none is left. Results are not sent: they are stored
in the folder, which all workers and the calling process must see under one path.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from privopt.arguments import positive_integer
from privopt.cli.device import prepare

_DAY = 24 * 60  # minutes
_FAILURES = 1000  # a task may fail with this many dead workers


class Engine(StrEnum):
    """Library that starts the workers."""

    DASK = "dask"
    SUBMITIT = "submitit"


@dataclass(frozen=True)
class Order:
    """Order to a worker. It is pickled, and read without importing JAX.

    A call runs cells until none is left and returns their number. It returns a message if the
    environment or the source of the worker differs, because its cells would be of no use.
    ``identity`` describes environment and source of the calling process.
    """

    experiments: Sequence[str]  # names or paths
    folder: str  # of the experiments
    profile: str
    seed: int
    results: str
    devices: int | None
    cache: bool
    identity: Mapping[str, str]

    @classmethod
    def of(cls, experiments: Sequence[str], folder: Path, results: Path, **others: Any) -> Order:
        """Return an order with absolute paths."""
        names = [
            str(Path(name).resolve()) if name.endswith(".py") else name for name in experiments
        ]
        place = str(folder.resolve())
        identity = _identity(names, place)
        return cls(names, place, results=str(results.resolve()), identity=identity, **others)

    def __call__(self) -> int | str:
        prepare(self.devices, self.cache)
        from privopt import lab

        ours = _identity(self.experiments, self.folder)
        for name, value in self.identity.items():
            if ours[name] != value:
                return (
                    f"worker on {platform.node()} must have {name} {value}, as the calling "
                    f"process, got {ours[name]}"
                )
        selected, _ = lab.choose(self.experiments, self.folder, self.profile)
        return sum(
            lab.work(each, profile=self.profile, seed=self.seed, results=self.results)
            for each in selected
        )

    def checkpoint(self) -> Any:
        """Return the same order for submitit to run after a preemption; stored cells are reused."""
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self)


def _identity(experiments: Sequence[str], folder: str) -> dict[str, str]:
    from privopt import lab

    files = [Path(name) for name in experiments if name.endswith(".py")]
    return lab.identity([*lab.discover(folder), *files])


def run_workers(
    engine: Engine,
    order: Order,
    *,
    workers: int | None,
    scheduler: str | None,
    options: Mapping[str, str],
    report: Callable[[str], object],
) -> None:
    """Start the workers of an engine and wait for them. Others run the cells of a dead worker.

    ``ValueError`` if a worker refuses the order, ``ModuleNotFoundError`` without the extra
    ``scale``.
    """
    if workers is not None:
        positive_integer("workers", workers)
    if scheduler is not None and engine is not Engine.DASK:
        raise ValueError(f"scheduler must come with the engine dask, got {engine.value}")
    try:
        if engine is Engine.DASK:
            if options:
                raise ValueError(f"option must come with the engine submitit, got {[*options]}")
            _run_dask(order, workers, scheduler, report)
        else:
            _run_submitit(order, workers or 1, options, report)
    except ModuleNotFoundError as error:
        if error.name in ("dask", "distributed", "submitit"):
            error.msg += "; it comes with the extra scale: pip install 'privopt[scale]'"
        raise


def _run_dask(
    order: Order, workers: int | None, scheduler: str | None, report: Callable[[str], object]
) -> None:
    """Submit one task per worker, to a local cluster if no scheduler is given."""
    import dask
    from distributed import Client, as_completed

    if scheduler is None and workers is None:
        raise ValueError("workers must be given with dask without a scheduler, got None")
    # A worker sends nothing while JAX compiles, and a dead worker does not report its task.
    patient = {"worker-ttl": None, "allowed-failures": _FAILURES}
    with dask.config.set({f"distributed.scheduler.{name}": x for name, x in patient.items()}):
        local = {"n_workers": workers, "threads_per_worker": 1, "dashboard_address": None}
        with Client(scheduler) if scheduler else Client(processes=True, **local) as client:
            number = workers or len(client.nthreads())
            if number == 0:
                raise ValueError(f"scheduler must have workers, got none at {scheduler}")
            tasks = [client.submit(order, pure=False) for _ in range(number)]
            for ended, task in enumerate(as_completed(tasks), 1):
                report(f"worker {ended} of {number} {_outcome(task)}")


def _run_submitit(
    order: Order, workers: int, options: Mapping[str, str], report: Callable[[str], object]
) -> None:
    """Submit an array of SLURM jobs, or local processes without SLURM; logs are in ``.jobs``."""
    from submitit import AutoExecutor

    from privopt import lab

    executor = AutoExecutor(folder=lab.open_results(order.results) / ".jobs")
    numbers = {name: int(text) if text.isdigit() else text for name, text in options.items()}
    executor.update_parameters(**{"timeout_min": _DAY, **numbers})
    with executor.batch():
        jobs = [executor.submit(order) for _ in range(workers)]
    for ended, job in enumerate(jobs, 1):
        report(f"worker {ended} of {workers} {_outcome(job)}")


def _outcome(task: Any) -> str:
    """Return the outcome of a worker as text; raise ``ValueError`` if it refused the order."""
    try:
        value = task.result()
    except Exception as error:
        return f"ended without a result: {error}"
    if isinstance(value, str):
        raise ValueError(value)
    return f"made {value} cells"
