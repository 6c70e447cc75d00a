"""The release point, through which every random or released value passes.

Every noise sample, noisy answer and selection is passed to :func:`release` with a name. By default
this is the identity, which adds no operation to a program. A :class:`Tape` records the values. A
:class:`Replay` replaces them. An audit reads the releases of a run from a tape. A replay test
checks that a run depends on the data only through its releases.

An open tape or replay disables compilation (``jax.disable_jit``). Every value is then concrete, and
loops run in Python. This is slow and meant for runs of a few steps.

The names are ``"batch"`` (indices and mask), ``"noise"`` (as sampled), ``"answer"`` (with its
noise, covered by the guarantee) and ``"selection"`` (an index).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from contextvars import ContextVar
from typing import Any, NamedTuple, Self, TypeAlias, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from privopt.arguments import flag

__all__ = ["Pytree", "Released", "Replay", "Tape", "release"]

Pytree: TypeAlias = Any  # an array, or nested containers of arrays

Value = TypeVar("Value")
_LISTENERS: ContextVar[tuple[_Open, ...]] = ContextVar("listeners", default=())


def release(name: str, value: Value) -> Value:
    """Return ``value``, a pytree of arrays, or its replacement under a :class:`Replay` of ``name``.

    ``ValueError`` can occur only under a tape or a replay: if values are traced by an enclosing
    ``jax.vmap`` or ``jax.jit``, or if a replay does not fit.
    """
    for listener in _LISTENERS.get():
        value = listener.receive(name, value)
    return value


class Released(NamedTuple):
    """One entry of a tape: a name, and NumPy arrays, or traced arrays if the tape keeps these."""

    name: str
    value: Pytree


class _Open:
    """Context that receives all releases and disables compilation."""

    def __init__(self, *, numbers: bool = True) -> None:
        self._numbers = numbers
        self._exits: ExitStack | None = None

    def __enter__(self) -> Self:
        if self._exits is not None:
            raise ValueError(f"a {type(self).__name__} must be opened once, got it open")
        self._exits = ExitStack()
        self._exits.callback(_LISTENERS.reset, _LISTENERS.set((*_LISTENERS.get(), self)))
        if self._numbers:
            self._exits.enter_context(jax.disable_jit())
        return self

    def __exit__(self, *raised: object) -> None:
        assert self._exits is not None
        self._exits.close()
        self._exits = None

    def receive(self, name: str, value: Value) -> Value:
        """Return the value with which the program continues."""
        raise NotImplementedError


class Tape(_Open):
    """Recorder of all releases while it is open.

    ``tape.released`` is a list of :class:`Released` in the order of the run, and ``tape[name]``
    contains the values of one name. Contexts can be nested. The outermost receives values first,
    so ``with Replay(...), Tape()`` records the replayed values.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> with Tape() as tape:
    ...     for t in range(3):
    ...         number = release("answer", jnp.int32(t))
    >>> [int(value) for value in tape["answer"]]
    [0, 1, 2]

    With ``traced`` it records traced values, for a function under a ``jax.vmap`` that opens the
    tape and must return them. Compilation is then not disabled.
    """

    def __init__(self, *, traced: bool = False) -> None:
        super().__init__(numbers=not flag("traced", traced))
        self.released: list[Released] = []

    def __getitem__(self, name: str) -> list[Pytree]:
        return [entry.value for entry in self.released if entry.name == name]

    def receive(self, name: str, value: Value) -> Value:
        """Record ``value`` and return it."""
        entry = jax.tree.map(_number, value) if self._numbers else value
        self.released.append(Released(name, entry))
        return value


class Replay(_Open):
    """Replacement of releases by recorded values.

    The arguments are the values of each name in order, such as ``answer=tape["answer"]``. Other
    names pass unchanged. ``ValueError`` if the run has more or fewer releases than values, or one
    of another structure, shape or type.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> with Replay(noise=[jnp.float32(2.0)]):
    ...     noisy = 1.0 + release("noise", jnp.float32(0.5))
    >>> float(noisy)
    3.0
    """

    def __init__(self, **values: Sequence[Pytree]) -> None:
        super().__init__()
        self._values = {name: list(recorded) for name, recorded in values.items()}
        self._count = dict.fromkeys(values, 0)

    def __exit__(self, *raised: object) -> None:
        super().__exit__(*raised)
        if raised[0] is not None:
            return
        for name, values in self._values.items():
            if self._count[name] < len(values):
                raise ValueError(
                    f"{name} must be replayed to its end, got {self._count[name]} releases for "
                    f"{len(values)} values"
                )

    def receive(self, name: str, value: Value) -> Value:
        """Return the next value of ``name``, or ``value`` if the name is not replayed."""
        if name not in self._values:
            return value
        number = self._count[name]
        if number == len(self._values[name]):
            raise ValueError(f"{name} must have a value for every release, got only {number}")
        self._count[name] += 1
        recorded = self._values[name][number]
        expected, actual = _described(value), _described(recorded)
        if expected != actual:
            raise ValueError(f"{name}[{number}] must be {expected} to be replayed, got {actual}")
        return jax.tree.map(jnp.asarray, recorded)


def _number(leaf: ArrayLike) -> np.ndarray:
    if isinstance(leaf, jax.core.Tracer):
        raise ValueError(
            "a tape must record numbers, got traced values: leave out jax.vmap and jax.jit, and "
            "call run rather than run_many"
        )
    return np.asarray(leaf)


def _described(value: Pytree) -> str:
    arrays, structure = jax.tree.flatten(value)
    kinds = ", ".join(f"{jnp.asarray(leaf).dtype}{list(jnp.shape(leaf))}" for leaf in arrays)
    return f"{kinds} in {structure}"
