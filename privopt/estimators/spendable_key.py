"""Key of a private model: every fit and every copy uses a different key."""

from __future__ import annotations

import math
import os
import threading
import warnings
from typing import Any, NoReturn

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Key

from privopt.core import Plan
from privopt.privacy import Guarantee
from privopt.random import as_key, stream


class SpendableKey:
    """Source of the keys of all fits of a model, of its clones and of its copies in this process.

    scikit-learn copies a model for each fold, candidate, output and class. All copies share one
    object of this class, and each fit uses the next key. The object is therefore its own copy and
    its own deep copy.

    - The first fit uses the given key, so it is reproducible. Before its noise is drawn, the key is
      replaced by its child, which is for the next fit. A used key cannot be computed from its
      child, so a fitted model does not contain the key of its noise.
    - Every fit after the first one warns, and states the guarantee of all fits together.
    - A pickle never contains a key. If no fit has used the key, the unpickled object draws a new
      key from the entropy of the operating system: worker processes have independent noise and are
      not reproducible. Otherwise the unpickled object is spent, and a fit raises ``ValueError``. A
      forked process is treated in the same way.

    Parameters
    ----------
    key : Array, optional
        Typed key of JAX. By default the first fit draws 64 bits from the operating system. The
        first fit raises ``ValueError`` for any other value.

    Examples
    --------
    >>> import jax
    >>> SpendableKey(jax.random.key(0))
    a secret key
    """

    __slots__ = ("_key", "_lock", "_pickles", "_plans", "_process")

    def __init__(self, key: Any = None) -> None:
        self._key = key
        self._lock = threading.Lock()
        self._pickles = 0
        self._plans: list[Plan] = []
        self._process = os.getpid()

    def take(self, plan: Plan) -> Key[Array, ""]:
        """Return the key of one fit of ``plan``, and warn if it is not the first fit."""
        with self._lock:
            self._leave_parent()
            self._check()
            key = _fresh_key() if self._key is None else self._key
            self._key = jax.random.fold_in(stream(key, "runs"), 1)
            self._plans.append(plan)
            plans, pickles = tuple(self._plans), self._pickles
        if len(plans) > 1 or pickles:
            warnings.warn(_statement(plans, pickles), stacklevel=3)
        return key

    def _check(self) -> None:
        """Raise ``ValueError`` unless a key can be taken."""
        if isinstance(self._key, int | np.integer):
            raise ValueError(
                "key must be a typed key of JAX, such as jax.random.key(seed), or None for a key "
                "from the operating system; got an integer"
            )
        if self._key is not None:
            self._key = as_key(self._key)

    def _leave_parent(self) -> None:
        """Drop the key of a parent process, which uses the same one."""
        if self._process == os.getpid():
            return
        if self._plans:
            _refuse_spent()
        self._key, self._process = None, os.getpid()

    def __reduce__(self) -> tuple[Any, ...]:
        with self._lock:
            if self._plans:
                return _Spent, ()
            self._check()
            self._pickles += 1
            return SpendableKey, ()

    def __copy__(self) -> SpendableKey:
        return self

    def __deepcopy__(self, memo: object) -> SpendableKey:
        return self

    def __repr__(self) -> str:
        return "a secret key"


class _Spent(SpendableKey):
    """Key from the pickle of a fitted model."""

    __slots__ = ()

    def take(self, plan: Plan) -> NoReturn:
        _refuse_spent()

    def __reduce__(self) -> tuple[Any, ...]:
        return _Spent, ()

    def __repr__(self) -> str:
        return "a spent key"


def _refuse_spent() -> NoReturn:
    raise ValueError(
        "key must not be spent: a fit used it before it was copied to this process, where the "
        "earlier fits cannot be counted. Set another one, by set_params(key=jax.random.key(seed)) "
        "or set_params(key=None); the guarantees of both fits compose"
    )


def _fresh_key() -> Array:
    """Return a key of 64 bits from the entropy of the operating system."""
    bits = jnp.asarray(np.frombuffer(os.urandom(8), np.uint32))
    return jax.random.wrap_key_data(bits, impl="threefry2x32")


def _statement(plans: tuple[Plan, ...], pickles: int) -> str:
    """Describe the guarantee of all fits together, as if they had the same data."""
    composed = " and ".join(_composed(plans))
    if len(plans) == 1:
        message = f"this fit satisfies {composed}"
    else:
        message = (
            f"key has been used by {len(plans)} fits: on the same data they satisfy {composed} "
            "together"
        )
    if pickles:
        message += (
            f". key has been pickled {pickles} times: the fits of these copies, in other "
            "processes, compose with it and are not counted"
        )
    return message + ". Use another key for other data"


def _composed(plans: tuple[Plan, ...]) -> list[str]:
    """Return one guarantee per relation, in words; guarantees of two relations do not compose."""
    composed: dict[tuple[Any, int], tuple[Guarantee, float]] = {}
    for plan in plans:
        guarantee, delta = plan.guarantee, plan.budget.delta
        group = guarantee.relation, guarantee.records
        if group in composed:
            before, largest = composed[group]
            guarantee, delta = before.then(guarantee), max(largest, delta)
        composed[group] = guarantee, delta
    return [
        f"({_rounded_up(guarantee.epsilon(delta).upper)}, {delta:g})-differential privacy under "
        f"{guarantee.relation.value}"
        for guarantee, delta in composed.values()
    ]


def _rounded_up(epsilon: float) -> str:
    """Return ``epsilon`` rounded up to three decimals."""
    return f"{math.ceil(epsilon * 1e3) / 1e3:.3f}" if math.isfinite(epsilon) else "infinite"
