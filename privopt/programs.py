"""Compiled programs: options of the compiler, and a persistent cache."""

from __future__ import annotations

import hashlib
import os
import platform
import re
from pathlib import Path

from privopt.arguments import WrongTypeError, described

__all__ = ["CACHE_SETTINGS", "compiler_options", "keep_programs", "programs_folder"]

CACHE_SETTINGS = {
    "jax_persistent_cache_min_compile_time_secs": 0.05,
    "jax_persistent_cache_min_entry_size_bytes": -1,
    # With XLA's own caches, the name of an entry depends on the folder.
    "jax_persistent_cache_enable_xla_caches": "none",
}
"""Settings of JAX for a cache of many small programs, without its folder."""


def compiler_options(backend: str) -> dict[str, bool | int] | None:
    """Return ``compiler_options`` of ``jax.jit`` for a program that runs once.

    They select the older of two code generators for CPUs, which compiles in half the time, and
    little optimisation by LLVM. Elementwise functions are slower with the older one: batched DP-GD
    takes three times as long. JAX 0.11 has no choice. JAX accepts options for a program only if no
    other program contains it.
    """
    import jax

    if backend != "cpu":
        return None
    older = {"xla_cpu_use_fusion_emitters": False} if jax.__version_info__ < (0, 11) else {}
    return {"xla_backend_optimization_level": 1, **older}


def keep_programs(folder: Path | str | None = None) -> Path:
    """Keep compiled programs on disk, and return their folder.

    Call it once, before the first run. Later processes then read the programs instead of compiling
    them. The cache is off by default, because a compiled program contains the arrays that a user's
    loss function captures as constants. The problems of this package pass their data as arguments,
    so their programs contain no data. ``privopt run`` and ``privopt compare`` keep programs unless
    ``--no-cache`` is given.

    Parameters
    ----------
    folder : path, optional
        Default: the environment variable ``JAX_COMPILATION_CACHE_DIR``, or a folder for this
        processor in ``~/.cache/privopt`` or ``$XDG_CACHE_HOME/privopt``.

    Examples
    --------
    >>> from privopt.programs import programs_folder
    >>> programs_folder().parent.name  # of the default folder
    'privopt'
    """
    import jax

    if folder is not None and not isinstance(folder, str | Path):
        raise WrongTypeError(f"folder must be a path, got {described(folder)}")
    configured = os.environ.get("JAX_COMPILATION_CACHE_DIR")
    path = Path(folder or configured or programs_folder())
    jax.config.update("jax_compilation_cache_dir", str(path))
    for name, value in CACHE_SETTINGS.items():
        if name.upper() not in os.environ:
            jax.config.update(name, value)
    return path


def programs_folder() -> Path:
    """Return the default folder of programs for this processor; home folders may be shared."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return home / "privopt" / f"programs-{hashlib.sha256(_processor().encode()).hexdigest()[:12]}"


def _processor() -> str:
    """Return model and features of the processor, as far as they are known."""
    path = Path("/proc/cpuinfo")
    if not path.is_file():
        return f"{platform.machine()} {platform.processor()}"
    first, *_ = path.read_text("utf-8", "replace").split("\n\n")
    return "\n".join(re.findall(r"^(?:model name|flags|Features|CPU part)\s*:.*$", first, re.M))
