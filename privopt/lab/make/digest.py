"""What the numbers of a cell follow from, as text: the data of its problem, and its plan."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import jax
import numpy as np

from privopt.core import Plan
from privopt.problems import Problem


def digest(problem: Problem) -> str:
    """SHA-256 of the numbers of a problem, static ones too, and of what is declared of it."""
    static = _static(jax.tree.structure(problem.objective))
    found = hashlib.sha256(f"{problem.name} {problem.problem_class} {static}".encode())
    for leaf in jax.tree.leaves(problem.objective):
        array = np.ascontiguousarray(leaf)
        found.update(f"{array.dtype} {array.shape}".encode() + array.tobytes())
    return found.hexdigest()


def _static(structure: jax.tree_util.PyTreeDef) -> list[object]:
    """The classes of a pytree's nodes, each with its static numbers and texts."""
    inner = map(_static, structure.children())
    node, told = structure.node_data() or (None, ())
    fields = told if isinstance(told, tuple | list) else (told,)
    own = [x for x in fields if isinstance(x, str | int | float | tuple | None)]
    return [node and node.__qualname__, own, *inner]


def numbers(plan: Plan) -> object:
    """Everything that a plan tells the device; JSON values."""
    return _plain([plan.params, plan.static])


def described(plan: Plan) -> str:
    """All numbers of a plan, what it guarantees and the theorem that it follows, as JSON."""
    told = {
        "params": plan.params,
        "static": plan.static,
        "guarantee": {
            "event": str(plan.guarantee.event),
            "relation": plan.guarantee.relation.value,
            "assumptions": plan.guarantee.assumptions,
        },
        "rate": {
            "theorem": plan.rate.theorem,
            "source": plan.rate.source,
            "regime": plan.rate.regime,
            "quantity": plan.rate.quantity,
            "lower": [list(bound) for bound in plan.rate.lower],
        },
    }
    return json.dumps(_plain(told), sort_keys=True, allow_nan=False)


def _plain(value: Any) -> object:
    """NamedTuples and records by their fields' names; what JSON lacks as text."""
    if hasattr(value, "_asdict"):
        value = value._asdict()
    if is_dataclass(value) and not isinstance(value, type):
        numbers = {f.name: getattr(value, f.name) for f in fields(value)}
        value = {"kind": type(value).__name__} | numbers
    if callable(value):
        return f"{value.__module__}.{value.__qualname__}"
    if isinstance(value, np.ndarray):
        content = hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()
        return {"kind": "array", "shape": value.shape, "dtype": str(value.dtype), "sha256": content}
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value
