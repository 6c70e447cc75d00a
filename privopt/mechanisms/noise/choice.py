"""Noise made of a factorisation, of its name, or of other noise that begins anew."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from scipy.linalg import solve_triangular

from privopt.arguments import answering, checked, count, described, shown
from privopt.convex import pytree_dataclass
from privopt.factorisations import (
    FACTORISATIONS,
    BufferedFactorisation,
    DenseFactorisation,
    Factorisation,
    RestartedFactorisation,
    SeriesFactorisation,
    TreeFactorisation,
    factorise,
)
from privopt.mechanisms.noise.matrices import BufferedNoise, DenseNoise, SeriesNoise
from privopt.mechanisms.noise.noise import QUESTIONS, CorrelatedNoise, IndependentNoise, Noise
from privopt.mechanisms.noise.trees import HonakerNoise, TreeNoise
from privopt.release import Pytree


@pytree_dataclass
@dataclass(frozen=True, eq=False)
class RestartedNoise(CorrelatedNoise):
    """``noise`` from its first step again, with fresh draws, after every ``period`` steps.

    Formal guarantee
    ----------------
    ``C`` is block diagonal: epochs have independent noise, and a record that takes part in several
    of them moves each.

    Examples
    --------
    >>> from privopt.mechanisms import TreeNoise
    >>> noise = RestartedNoise(TreeNoise(), 4)
    >>> noise.factorisation(8).variances()
    array([1., 1., 2., 1., 2., 2., 3., 2.])
    """

    noise: Noise
    period: int

    def __post_init__(self) -> None:
        answering("noise", self.noise, QUESTIONS)
        count("period", self.period)

    @property
    def variance(self) -> float | None:  # type: ignore[override]
        return getattr(self.noise, "variance", None)

    def init(self, point: Pytree) -> Pytree:
        return self.noise.init(point)

    def update(self, state: Pytree, t: Array, key: Array, like: Pytree) -> tuple[Pytree, Pytree]:
        t = jnp.asarray(t)
        epoch, place = jnp.divmod(t, jnp.asarray(self.period).astype(t.dtype))
        # A loop of one turn or none: a choice between two memories would copy them in every step.
        begun = (place == 0).astype(t.dtype)
        state = jax.lax.fori_loop(0, begun, lambda _, old: self.noise.init(like), state)
        return self.noise.update(state, place, jax.random.fold_in(key, epoch), like)

    def factorisation(self, steps: int) -> Factorisation:
        return RestartedFactorisation(self.noise.factorisation(int(self.period)), steps)


MAX_OPTIMUM = 1024  # steps for which a name may ask for the optimum


@checked
def correlated_noise(factorisation: Factorisation) -> Noise:
    """The noise whose prefix sums are ``B xi``.

    Its own ``factorisation(steps)`` is that of the numbers in float32 which it adds, and privacy is
    computed from that one. ValueError for a kind that no noise streams.

    Examples
    --------
    >>> correlated_noise(factorise("banded_inverse", 1000, band=4)).denominator
    array([ 1.    , -0.5   , -0.125 , -0.0625], dtype=float32)
    """
    match factorisation:
        case TreeFactorisation():
            return HonakerNoise.of(factorisation.steps) if factorisation.refined else TreeNoise()
        case SeriesFactorisation(numerator=p, denominator=q):
            return IndependentNoise() if len(p) == len(q) == 1 else SeriesNoise(p, q)
        case BufferedFactorisation():
            return BufferedNoise(factorisation.omega, factorisation.theta)
        case DenseFactorisation(steps=steps):
            return DenseNoise(solve_triangular(factorisation.encoder(), np.eye(steps), lower=True))
        case RestartedFactorisation():
            return RestartedNoise(
                correlated_noise(factorisation.factorisation), factorisation.period
            )
    raise ValueError(
        f"factorisation must be of a kind that some noise streams, got {described(factorisation)}"
    )


@checked
def noise_of(
    noise: Noise | str | None, steps: int, band: int | None = None, optimise: bool = False
) -> Noise:
    """A given noise as it is, the noise of a name, or independent noise for None.

    Names are those of :func:`privopt.factorisations.factorise`. A named noise is made for ``steps``
    steps; ``band`` and ``optimise`` are for names that have them.

    Examples
    --------
    >>> noise_of("honaker", 100).height
    7
    """
    if isinstance(noise, str):
        if noise == "optimal" and steps > MAX_OPTIMUM:
            raise ValueError(
                f"noise must be another than 'optimal' for more than {MAX_OPTIMUM} steps, which "
                f"take seconds, and more take their cube, got {steps} steps; or made beforehand, "
                "correlated_noise(factorise('optimal', steps))"
            )
        width = None if band is None else count("band", band)
        return _named(noise, count("steps", steps), width, optimise=bool(optimise))
    if band is not None:
        raise ValueError(f"band must be left out where noise is no name, got {shown(band)}")
    if optimise:
        raise ValueError(f"optimise must be False where noise is no name, got {shown(optimise)}")
    if noise is None:
        return IndependentNoise()
    found: Noise = answering("noise", noise, QUESTIONS, FACTORISATIONS)
    return found


@lru_cache(maxsize=32)
def _named(name: str, steps: int, band: int | None, *, optimise: bool) -> Noise:
    return correlated_noise(factorise(name, steps, band=band, optimise=optimise))
