"""Correlated noise: Toeplitz, dense and restarted factorisations, and factories by name.

Coefficients are rounded to float32, and ``C`` consists of the rounded ones: privacy is computed
from the numbers that the device multiplies by.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike
from jaxtyping import Float, Key
from scipy.linalg import solve_triangular

from privopt.arguments import answering, checked, count, described, member, shown
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
from privopt.mechanisms.noise.noise import (
    QUESTIONS,
    CorrelatedNoise,
    IndependentNoise,
    Noise,
    sample_normal,
    unravel_like,
    weighted,
    zero_rows,
)
from privopt.mechanisms.noise.trees import HonakerNoise, TreeNoise
from privopt.release import Pytree

MAX_GROWTH = 2.0**12  # weight of past noise relative to new noise: half of the bits of float32


@pytree_dataclass
@dataclass(frozen=True, eq=False)
class SeriesNoise(CorrelatedNoise):
    r"""Noise with ``C = p/q`` as power series of the shift: ``z = (q/p) xi``.

    .. math:: y_t = \xi_t - \sum_{j \ge 1} p_j y_{t-j}, \qquad z_t = \sum_{j \ge 0} q_j y_{t-j} .

    ``p`` and ``q`` begin with 1. A banded ``C`` is ``p``, with ``q = 1``; a banded ``C^{-1}`` is
    ``q``, with ``p = 1``. The state is a ring of vectors ``y``, one for each coefficient of the
    longer series.

    Examples
    --------
    >>> noise = SeriesNoise(np.ones(1), np.array([1.0, -0.5]))
    >>> noise.factorisation(4).coefficients()
    array([1.   , 0.5  , 0.25 , 0.125])
    """

    numerator: ArrayLike
    denominator: ArrayLike

    def __post_init__(self) -> None:
        for name in ("numerator", "denominator"):
            series = _coefficients(name, getattr(self, name), 1)
            if series[0] != 1.0:
                raise ValueError(f"{name} must begin with 1, got {series[0]}")
            object.__setattr__(self, name, series)

    def init(self, point: Pytree) -> Float[Array, "rows d"]:
        return zero_rows(max(np.size(self.numerator), np.size(self.denominator)), point)

    def update(
        self, state: Float[Array, "rows d"], t: Array, key: Key[Array, ""], like: Pytree
    ) -> tuple[Pytree, Array]:
        t, places, noise = jnp.asarray(t), state.shape[0], sample_normal(key, t, like)
        lags = jnp.mod(t - jnp.arange(places, dtype=t.dtype), places)

        def past_sum(series: ArrayLike) -> Array:
            numbers = jnp.asarray(series, noise.dtype).at[0].set(0.0)
            return weighted(jnp.pad(numbers, (0, places - numbers.size))[lags], state)

        if np.size(self.numerator) > 1:
            noise = noise - past_sum(self.numerator)
        state = jax.lax.dynamic_update_index_in_dim(state, noise, jnp.mod(t, places), 0)
        if np.size(self.denominator) > 1:
            noise = noise + past_sum(self.denominator)
        return unravel_like(noise, like), state

    def factorisation(self, steps: int) -> Factorisation:
        series = np.asarray(self.numerator), np.asarray(self.denominator)
        numerator, denominator = (each[:steps] for each in series)
        factorisation = SeriesFactorisation("series", steps, numerator, denominator)
        if numerator.size > 1:
            inverse = SeriesFactorisation("series", steps, numerator).inverse()
            _require_streamable("numerator", inverse, steps)
        _require_streamable("denominator", factorisation.inverse(), steps)
        return factorisation


@pytree_dataclass
@dataclass(frozen=True, eq=False)
class BufferedNoise(CorrelatedNoise):
    r"""Toeplitz noise of geometric buffers: ``c_0 = 1, c_k = \sum_i omega_i theta_i^{k-1}``.

    .. math:: z_t = \xi_t - \sum_i \omega_i u_i, \qquad u_i \leftarrow \theta_i u_i + z_t .

    ``omega >= 0`` and ``0 <= theta <= 1`` have one number for each buffer.
    Source: McMahan, Xu and Zhang 2024 (arXiv:2408.08868).

    Examples
    --------
    >>> noise = BufferedNoise(np.array([0.5]), np.array([0.5]))
    >>> noise.factorisation(4).coefficients()
    array([1.   , 0.5  , 0.25 , 0.125])
    """

    omega: ArrayLike
    theta: ArrayLike

    def __post_init__(self) -> None:
        for name in ("omega", "theta"):
            object.__setattr__(self, name, _coefficients(name, getattr(self, name), 1))
        self.factorisation(1)

    def init(self, point: Pytree) -> Float[Array, "rows d"]:
        return zero_rows(np.size(self.omega), point)

    def update(
        self, state: Float[Array, "rows d"], t: Array, key: Key[Array, ""], like: Pytree
    ) -> tuple[Pytree, Array]:
        fresh = sample_normal(key, t, like)
        noise = fresh - weighted(jnp.asarray(self.omega, fresh.dtype), state)
        state = jnp.asarray(self.theta, fresh.dtype)[:, None] * state + noise[None]
        return unravel_like(noise, like), state

    def factorisation(self, steps: int) -> Factorisation:
        factorisation = BufferedFactorisation(steps, np.asarray(self.omega), np.asarray(self.theta))
        with np.errstate(over="ignore", invalid="ignore"):
            _require_streamable("omega", factorisation.inverse(), steps)
        return factorisation


@pytree_dataclass
@dataclass(frozen=True, eq=False)
class DenseNoise(CorrelatedNoise):
    r"""Noise ``z_t = \sum_{s \le t} R_{ts} xi_s``, ``R = C^{-1}``; the state contains all ``xi``.

    ``inverse`` is ``R``, lower triangular and invertible, of shape ``(steps, steps)``.

    Examples
    --------
    >>> noise = DenseNoise(np.array([[1.0, 0.0], [-0.5, 1.0]]))
    >>> noise.factorisation(2).encoder()
    array([[1. , 0. ],
           [0.5, 1. ]])
    """

    inverse: ArrayLike

    def __post_init__(self) -> None:
        inverse = _coefficients("inverse", self.inverse, 2)
        if inverse.shape[0] != inverse.shape[1]:
            raise ValueError(f"inverse must be a square matrix, got shape {inverse.shape}")
        if np.triu(inverse, 1).any():
            raise ValueError("inverse must be lower triangular, got numbers above the diagonal")
        if not np.diag(inverse).all():
            raise ValueError("inverse must be invertible, got zeros on the diagonal")
        _require_streamable("inverse", inverse / np.diag(inverse)[:, None], len(inverse))
        object.__setattr__(self, "inverse", inverse)

    def init(self, point: Pytree) -> Float[Array, "rows d"]:
        return zero_rows(np.shape(self.inverse)[0], point)

    def update(
        self, state: Float[Array, "rows d"], t: Array, key: Key[Array, ""], like: Pytree
    ) -> tuple[Pytree, Array]:
        fresh = sample_normal(key, t, like)
        state = jax.lax.dynamic_update_index_in_dim(state, fresh, t, 0)
        row = jnp.asarray(self.inverse, fresh.dtype)[t]
        return unravel_like(weighted(row, state), like), state

    def factorisation(self, steps: int) -> Factorisation:
        inverse = np.asarray(self.inverse, np.float64)
        if count("steps", steps) > len(inverse):
            raise ValueError(f"steps must be at most {len(inverse)} for this noise, got {steps}")
        inverse = inverse[:steps, :steps]
        return DenseFactorisation(solve_triangular(inverse, np.eye(steps), lower=True))


def _coefficients(name: str, values: ArrayLike, dimensions: int) -> np.ndarray:
    """Return ``values`` in float32, read-only; check that they are finite real numbers."""
    array = np.asarray(values)
    if array.ndim != dimensions or not array.size or array.dtype.kind not in "fiu":
        raise ValueError(
            f"{name} must be an array of real numbers with {dimensions} dimensions, got shape "
            f"{array.shape} of {array.dtype}"
        )
    with np.errstate(over="ignore"):
        rounded = np.array(array, np.float32)
    if not np.isfinite(rounded).all():
        raise ValueError(f"{name} must be finite in float32, got infinities or NaN")
    rounded.setflags(write=False)
    return rounded


def _require_streamable(name: str, weights: np.ndarray, steps: int) -> None:
    """Check that the weights of past noise, relative to new noise, are at most ``MAX_GROWTH``.

    Otherwise the past grows until float32 rounds off the new noise, on which privacy depends.
    """
    if not np.all(np.abs(weights) <= MAX_GROWTH):
        raise ValueError(
            f"{name} must give C an inverse that float32 can hold: the weight of past noise is "
            f"at most {MAX_GROWTH:g} relative to new noise, got more within {steps} steps"
        )


@pytree_dataclass
@dataclass(frozen=True, eq=False)
class RestartedNoise(CorrelatedNoise):
    """Noise that restarts with independent samples after every ``period`` steps.

    Formal guarantee
    ----------------
    ``C`` is block diagonal: epochs have independent noise, and a record that is sampled in several
    epochs changes each of them.

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

    def update(
        self, state: Pytree, t: Array, key: Key[Array, ""], like: Pytree
    ) -> tuple[Pytree, Pytree]:
        t = jnp.asarray(t)
        epoch, place = jnp.divmod(t, jnp.asarray(self.period).astype(t.dtype))
        # A loop of at most one iteration: a conditional would copy the state in every step.
        restarts = (place == 0).astype(t.dtype)
        state = jax.lax.fori_loop(0, restarts, lambda _, old: self.noise.init(like), state)
        return self.noise.update(state, place, jax.random.fold_in(key, epoch), like)

    def factorisation(self, steps: int) -> Factorisation:
        return RestartedFactorisation(self.noise.factorisation(int(self.period)), steps)


MAX_OPTIMUM = 1024  # largest number of steps for the name "optimal"


@checked
def correlated_noise(factorisation: Factorisation) -> Noise:
    """Return the noise with prefix sums ``B xi``.

    Its ``factorisation(steps)`` consists of the float32 numbers that it uses, and privacy is
    computed from this one. ValueError for a kind of factorisation without a noise.

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
    raise ValueError(f"factorisation must be of a streamable kind, got {described(factorisation)}")


@checked
def noise_of(
    noise: Noise | str | None, steps: int, band: int | None = None, optimise: bool = False
) -> Noise:
    """Return ``noise`` itself, the noise of this name, or independent noise for None.

    Names are those of :func:`privopt.factorisations.factorise`. A named noise is constructed for
    ``steps`` steps; ``band`` and ``optimise`` apply to names that have them.

    Examples
    --------
    >>> noise_of("honaker", 100).height
    7
    """
    if isinstance(noise, str):
        member("noise", noise, FACTORISATIONS)
        if noise == "optimal" and steps > MAX_OPTIMUM:
            raise ValueError(
                f"noise must not be 'optimal' for more than {MAX_OPTIMUM} steps, since its time is "
                f"cubic, got {steps} steps; construct it beforehand by "
                "correlated_noise(factorise('optimal', steps))"
            )
        width = None if band is None else count("band", band)
        return _named(noise, count("steps", steps), width, optimise=bool(optimise))
    if band is not None:
        raise ValueError(f"band must be left out if noise is not a name, got {shown(band)}")
    if optimise:
        raise ValueError(f"optimise must be False if noise is not a name, got {shown(optimise)}")
    if noise is None:
        return IndependentNoise()
    checked_noise: Noise = answering("noise", noise, QUESTIONS, FACTORISATIONS)
    return checked_noise


@lru_cache(maxsize=32)
def _named(name: str, steps: int, band: int | None, *, optimise: bool) -> Noise:
    return correlated_noise(factorise(name, steps, band=band, optimise=optimise))
