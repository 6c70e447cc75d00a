"""The noise that streams a factorisation."""

from __future__ import annotations

from functools import lru_cache, singledispatch

import numpy as np
from scipy.linalg import solve_triangular

from privopt.arguments import answering, count, described
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
from privopt.mechanisms.noise.buffered import BufferedNoise
from privopt.mechanisms.noise.dense import DenseNoise
from privopt.mechanisms.noise.honaker import HonakerNoise
from privopt.mechanisms.noise.independent import IndependentNoise
from privopt.mechanisms.noise.noise import QUESTIONS, Noise
from privopt.mechanisms.noise.restarted import RestartedNoise
from privopt.mechanisms.noise.series import SeriesNoise
from privopt.mechanisms.noise.tree import TreeNoise

__all__ = ["correlated_noise", "noise_of"]

MAX_OPTIMUM = 1024  # steps for which a name may ask for the optimum


@singledispatch
def correlated_noise(factorisation: Factorisation) -> Noise:
    """The noise whose prefix sums are ``B xi``.

    Its own ``factorisation(steps)`` is that of the numbers in float32 which it adds, and privacy is
    computed from that one.

    Parameters
    ----------
    factorisation : Factorisation

    Raises
    ------
    ValueError
        If it is of a kind that no noise streams, or no factorisation.

    Examples
    --------
    >>> correlated_noise(factorise("banded_inverse", 1000, band=4)).denominator
    array([ 1.    , -0.5   , -0.125 , -0.0625], dtype=float32)
    """
    raise ValueError(
        f"factorisation must be of a kind that some noise streams, got {described(factorisation)}"
    )


@correlated_noise.register
def _(factorisation: TreeFactorisation) -> Noise:
    return HonakerNoise.of(factorisation.steps) if factorisation.refined else TreeNoise()


@correlated_noise.register
def _(factorisation: SeriesFactorisation) -> Noise:
    if len(factorisation.numerator) == len(factorisation.denominator) == 1:
        return IndependentNoise()
    return SeriesNoise(factorisation.numerator, factorisation.denominator)


@correlated_noise.register
def _(factorisation: BufferedFactorisation) -> Noise:
    return BufferedNoise(factorisation.omega, factorisation.theta)


@correlated_noise.register
def _(factorisation: DenseFactorisation) -> Noise:
    return DenseNoise(
        solve_triangular(factorisation.encoder(), np.eye(factorisation.steps), lower=True)
    )


@correlated_noise.register
def _(factorisation: RestartedFactorisation) -> Noise:
    return RestartedNoise(correlated_noise(factorisation.factorisation), factorisation.period)


def noise_of(
    noise: Noise | str | None, steps: int, band: int | None = None, optimise: bool = False
) -> Noise:
    """A noise as it is; one of a name of :func:`privopt.factorisations.factorise`; or independent.

    Parameters
    ----------
    noise : Noise, str or None
        None is independent noise.
    steps : int
        Which a named noise is made for.
    band : int, optional
    optimise : bool
        Both for names that have them.

    Raises
    ------
    ValueError
        If there is no such name, its band is refused, or a noise does not answer what it must.

    Examples
    --------
    >>> noise_of("honaker", 100)
    HonakerNoise(height=7)
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
        raise ValueError(f"band must be left out where noise is no name, got {band!r}")
    if optimise:
        raise ValueError(f"optimise must be False where noise is no name, got {optimise!r}")
    if noise is None:
        return IndependentNoise()
    found: Noise = answering("noise", noise, QUESTIONS, FACTORISATIONS)
    return found


@lru_cache(maxsize=32)
def _named(name: str, steps: int, band: int | None, *, optimise: bool) -> Noise:
    """Nobody changes one, and plans of many budgets ask for the same."""
    return correlated_noise(factorise(name, steps, band=band, optimise=optimise))
