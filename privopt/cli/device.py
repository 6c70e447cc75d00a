"""Settings of JAX before its import: host devices and the cache of compiled programs."""

from __future__ import annotations

import os
import re
import sys
from typing import Annotated

from typer import Option

from privopt.programs import CACHE_SETTINGS, programs_folder

_DEVICES = "--xla_force_host_platform_device_count"
_CACHE = "JAX_COMPILATION_CACHE_DIR"

Devices = Annotated[
    int | None,
    Option(min=1, help="Host devices for replicates; default one per core, or XLA_FLAGS."),
]
KeepPrograms = Annotated[
    bool,
    Option(
        "--cache/--no-cache",
        help="Keep compiled programs for later runs, in ~/.cache/privopt or in JAX's folder.",
    ),
]


def prepare(devices: int | None, cache: bool) -> None:
    """Set host devices and cache before JAX is imported. Environment variables have priority."""
    if "jax" in sys.modules:
        return
    flags = os.environ.get("XLA_FLAGS", "")
    if devices is not None or _DEVICES not in flags:
        others = re.sub(rf"{_DEVICES}=\S*", "", flags)
        os.environ["XLA_FLAGS"] = f"{others} {_DEVICES}={devices or core_count()}".strip()
    if cache and _CACHE not in os.environ:
        os.environ[_CACHE] = str(programs_folder())
        for name, value in CACHE_SETTINGS.items():
            os.environ.setdefault(name.upper(), str(value))


def core_count() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
