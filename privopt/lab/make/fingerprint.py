"""Where a result came from: versions, machine, and a fingerprint of the code that made it."""

from __future__ import annotations

import hashlib
import platform
from functools import cache
from importlib.metadata import version
from pathlib import Path

import jax

__all__ = ["code_fingerprint", "environment"]

_PACKAGES = (
    *("privopt", "jax", "jaxlib", "numpy", "scipy", "dp-accounting", "optax", "flax"),
    "scikit-learn",
)

# What lists, reads or shows results does not make them.
_READERS = ("cli", "lab/show", "lab/make/catalogue")


def environment() -> dict[str, str]:
    """Everything beside code, data and seed that may move the last bit of a result."""
    devices = jax.devices()
    return {
        "python": platform.python_version(),
        **{package: version(package) for package in _PACKAGES},
        "system": platform.system(),
        "machine": platform.machine(),
        "devices": f"{len(devices)} x {devices[0].device_kind}",
        "dtype": "float64",
    }


@cache
def code_fingerprint() -> str:
    """SHA-256 of every source file of privopt that results depend on."""
    root = Path(__file__).parents[2]
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        name = path.relative_to(root).as_posix()
        if not name.startswith(_READERS):
            digest.update(f"{name}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()
