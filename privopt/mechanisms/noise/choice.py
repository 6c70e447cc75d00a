"""The noise of a factorisation, and of its name."""

from __future__ import annotations

from functools import lru_cache

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
from privopt.mechanisms.noise.independent import IndependentNoise
from privopt.mechanisms.noise.matrices import BufferedNoise, DenseNoise, SeriesNoise
from privopt.mechanisms.noise.noise import QUESTIONS, Noise
from privopt.mechanisms.noise.restarted import RestartedNoise
from privopt.mechanisms.noise.trees import HonakerNoise, TreeNoise

MAX_OPTIMUM = 1024  # steps for which a name may ask for the optimum


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


def noise_of(
    noise: Noise | str | None, steps: int, band: int | None = None, optimise: bool = False
) -> Noise:
    """A given noise as it is, the noise of a name, or independent noise for None.

    Names are those of :func:`privopt.factorisations.factorise`. A named noise is made for ``steps``
    steps; ``band`` and ``optimise`` are for names that have them.

    Raises
    ------
    ValueError
        If there is no such name, its band is refused, or a noise does not answer what it must.

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
        raise ValueError(f"band must be left out where noise is no name, got {band!r}")
    if optimise:
        raise ValueError(f"optimise must be False where noise is no name, got {optimise!r}")
    if noise is None:
        return IndependentNoise()
    found: Noise = answering("noise", noise, QUESTIONS, FACTORISATIONS)
    return found


@lru_cache(maxsize=32)
def _named(name: str, steps: int, band: int | None, *, optimise: bool) -> Noise:
    return correlated_noise(factorise(name, steps, band=band, optimise=optimise))
