"""What JAX is told before it is imported: host devices, and where compiled programs are kept."""

from __future__ import annotations

import hashlib
import os
import platform
import re
import sys
from pathlib import Path
from typing import Annotated

import typer

_DEVICES = "--xla_force_host_platform_device_count"
_CACHE = "JAX_COMPILATION_CACHE_DIR"

Devices = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Host devices to spread replicates over; default one a core, or XLA_FLAGS.",
        show_default=False,
    ),
]
KeepPrograms = Annotated[
    bool,
    typer.Option(
        "--cache/--no-cache",
        help="Keep compiled programs for later runs, in ~/.cache/privopt or as JAX is told.",
    ),
]


def prepare(devices: int | None, cache: bool) -> None:
    """Both settings, as far as the environment does not say otherwise. Must come before JAX."""
    if "jax" in sys.modules:
        return
    _set_host_devices(devices)
    if cache and _CACHE not in os.environ:
        os.environ[_CACHE] = str(programs_folder())
        os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.05")
        os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")
        # With XLA's own caches, an entry's name would hold the folder's.
        os.environ.setdefault("JAX_PERSISTENT_CACHE_ENABLE_XLA_CACHES", "none")


def programs_folder() -> Path:
    """One folder a kind of processor: programs hold its instructions, and homes are shared."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return home / "privopt" / f"programs-{hashlib.sha256(_processor().encode()).hexdigest()[:12]}"


def _processor() -> str:
    """Its model and features, as far as the system tells them."""
    told = Path("/proc/cpuinfo")
    if not told.is_file():
        return f"{platform.machine()} {platform.processor()}"
    first, *_ = told.read_text("utf-8", "replace").split("\n\n")
    return "\n".join(re.findall(r"^(?:model name|flags|Features|CPU part)\s*:.*$", first, re.M))


def _set_host_devices(devices: int | None) -> None:
    """One XLA host device a core, unless the user says otherwise."""
    flags = os.environ.get("XLA_FLAGS", "")
    if devices is None and _DEVICES in flags:
        return
    kept = re.sub(rf"{_DEVICES}=\S*", "", flags)
    os.environ["XLA_FLAGS"] = f"{kept} {_DEVICES}={devices or _cores()}".strip()


def _cores() -> int:
    """The cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
