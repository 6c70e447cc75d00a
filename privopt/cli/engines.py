"""Engines: who starts the workers of a sweep, on this machine or on many.

A worker takes cells of the results folder until none is left. Results never travel: they lie in the
folder, which all workers and who asks must see under one path.
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
_FAILURES = 1000  # dead workers of which a task is not blamed


class Engine(StrEnum):
    """Who starts the workers."""

    DASK = "dask"
    SUBMITIT = "submitit"


@dataclass(frozen=True)
class Order:
    """What a worker is asked for; it is pickled, and JAX is not imported to read it.

    Calling it takes cells until none is left, and returns how many, or why it took none: what a
    worker of another environment or of other source made would be of no use.
    """

    experiments: Sequence[str]  # names, or paths
    folder: str  # of the experiments
    profile: str
    seed: int
    results: str
    devices: int | None
    cache: bool
    identity: Mapping[str, str]  # of who asks

    @classmethod
    def of(cls, experiments: Sequence[str], folder: Path, results: Path, **others: Any) -> Order:
        """With paths that do not depend on where a worker is started."""
        named = [
            str(Path(name).resolve()) if name.endswith(".py") else name for name in experiments
        ]
        place, found = str(folder.resolve()), str(results.resolve())
        return cls(named, place, results=found, identity=_identity(named, place), **others)

    def __call__(self) -> int | str:
        prepare(self.devices, self.cache)
        from privopt import lab

        ours = _identity(self.experiments, self.folder)
        for name, value in self.identity.items():
            if ours[name] != value:
                return (
                    f"worker on {platform.node()} must have {name} {value}, as who asks has, "
                    f"got {ours[name]}"
                )
        chosen, _ = lab.choose(self.experiments, self.folder, self.profile)
        return sum(
            lab.work(each, profile=self.profile, seed=self.seed, results=self.results)
            for each in chosen
        )

    def checkpoint(self) -> Any:
        """What submitit runs when a job is preempted: the same again, which finds its cells."""
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self)


def _identity(experiments: Sequence[str], folder: str) -> dict[str, str]:
    from privopt import lab

    files = [Path(name) for name in experiments if name.endswith(".py")]
    return lab.identity([*lab.discover(folder), *files])


Told = Callable[[int, int, str], object]
"""Of workers that have ended: how many, of how many, and what the last one says."""


def work_with(
    engine: Engine,
    order: Order,
    *,
    workers: int | None,
    scheduler: str | None,
    options: Mapping[str, str],
    told: Told,
) -> None:
    """Workers of an engine, to their end. What a dead one leaves, others take.

    ValueError where a worker refuses, ModuleNotFoundError without the extra ``scale``.
    """
    if workers is not None:
        positive_integer("workers", workers)
    if scheduler is not None and engine is not Engine.DASK:
        raise ValueError(f"scheduler must come with the engine dask, got {engine.value}")
    try:
        if engine is Engine.DASK:
            if options:
                raise ValueError(f"option must come with the engine submitit, got {[*options]}")
            _with_dask(order, workers, scheduler, told)
        else:
            _with_submitit(order, workers or 1, options, told)
    except ModuleNotFoundError as error:
        if error.name in ("dask", "distributed", "submitit"):
            error.msg += "; it comes with the extra scale: pip install 'privopt[scale]'"
        raise


def _with_dask(order: Order, workers: int | None, scheduler: str | None, told: Told) -> None:
    """One task a worker; of this machine's own cluster where no scheduler is named."""
    import dask
    from distributed import Client, as_completed

    if scheduler is None and workers is None:
        raise ValueError("workers must be given with dask where no scheduler is, got None")
    # While JAX compiles, a worker is silent; and a worker that dies tells nothing of its task.
    patient = {"worker-ttl": None, "allowed-failures": _FAILURES}
    with dask.config.set({f"distributed.scheduler.{name}": of for name, of in patient.items()}):
        local = {"n_workers": workers, "threads_per_worker": 1, "dashboard_address": None}
        with Client(scheduler) if scheduler else Client(processes=True, **local) as client:
            number = workers or len(client.nthreads())
            if number == 0:
                raise ValueError(f"scheduler must have workers, got none at {scheduler}")
            tasks = [client.submit(order, pure=False) for _ in range(number)]
            for ended, task in enumerate(as_completed(tasks), 1):
                told(ended, number, _said(task.result))


def _with_submitit(order: Order, workers: int, options: Mapping[str, str], told: Told) -> None:
    """An array of jobs of SLURM, or processes where there is none; logs in ``.jobs``."""
    from submitit import AutoExecutor

    from privopt import lab

    executor = AutoExecutor(folder=lab.open_results(order.results) / ".jobs")
    numbers = {name: int(text) if text.isdigit() else text for name, text in options.items()}
    executor.update_parameters(**{"timeout_min": _DAY, **numbers})
    with executor.batch():
        jobs = [executor.submit(order) for _ in range(workers)]
    for ended, job in enumerate(jobs, 1):
        told(ended, workers, _said(job.result))


def _said(result: Callable[[], int | str]) -> str:
    """What a worker did, or of what it died: its cells are others' then. A refusal is raised."""
    try:
        found = result()
    except Exception as error:
        return f"ended without a result: {error}"
    if isinstance(found, str):
        raise ValueError(found)
    return f"made {found} cells"
