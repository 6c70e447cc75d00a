"""Settings of JAX before its import: host devices and the cache of compiled programs."""

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
        help="Host devices for replicates; default one per core, or XLA_FLAGS.",
        show_default=False,
    ),
]
KeepPrograms = Annotated[
    bool,
    typer.Option(
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
        os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.05")
        os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")
        # With XLA's own caches, the name of an entry depends on the folder.
        os.environ.setdefault("JAX_PERSISTENT_CACHE_ENABLE_XLA_CACHES", "none")


def programs_folder() -> Path:
    """Return the folder of programs for this processor; home folders may be shared."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return home / "privopt" / f"programs-{hashlib.sha256(_processor().encode()).hexdigest()[:12]}"


def _processor() -> str:
    """Return model and features of the processor, as far as they are known."""
    path = Path("/proc/cpuinfo")
    if not path.is_file():
        return f"{platform.machine()} {platform.processor()}"
    first, *_ = path.read_text("utf-8", "replace").split("\n\n")
    return "\n".join(re.findall(r"^(?:model name|flags|Features|CPU part)\s*:.*$", first, re.M))


def core_count() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
