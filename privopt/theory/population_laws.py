"""Laws of the population risk: one pass with correlated or fresh noise, and many passes."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from privopt.theory.ftrl import ftrl_rate
from privopt.theory.prefix_error import PrefixError, local_exponent
from privopt.theory.rate import FIXED, Powers, Quantity, Rate
from privopt.theory.setting import Law, Setting
from privopt.theory.stability import descent_population_rate

__all__ = [
    "StreamNoise",
    "dp_ftrl_law",
    "dp_gd_population_law",
    "dp_sgd_population_law",
    "fresh_noise",
    "one_pass_sgd_law",
    "toeplitz_noise",
    "tree_noise",
]

StreamNoise = Callable[[int], tuple[float, PrefixError]]
"""``T -> (sensitivity, error)``: of unit gradients, each in one step, under ``zero_out``."""


def fresh_noise(steps: int) -> tuple[float, PrefixError]:
    """Independent noise in every step, as descent has it.

    Examples
    --------
    >>> fresh_noise(100)[0]
    1.0
    """
    del steps
    return 1.0, PrefixError(0.0, increment=1.0)


def tree_noise(steps: int) -> tuple[float, PrefixError]:
    """The plain binary tree: ``floor(log2 T) + 1`` nodes a record, ``popcount(t)`` in a prefix.

    Examples
    --------
    >>> sensitivity, error = tree_noise(100)
    >>> round(sensitivity, 4), round(error.deviation, 4), round(error.growth, 4)
    (2.6458, 1.7535, 0.2143)
    """
    return _grown(_tree, steps)


def toeplitz_noise(steps: int) -> tuple[float, PrefixError]:
    """The square root of the matrix of prefix sums, ``f_k = f_{k-1} (1 - 1/(2k))``, for ``B = C``.

    Examples
    --------
    >>> sensitivity, error = toeplitz_noise(100)
    >>> round(sensitivity, 4), round(error.deviation, 4), round(error.growth, 4)
    (1.591, 1.4861, 0.1343)
    """
    return _grown(_toeplitz, steps)


def dp_ftrl_law(
    noise: StreamNoise,
    *,
    batch_size: int = 1,
    quantity: Quantity | str = Quantity.POPULATION_RISK,
) -> Law:
    """The law of DP-FTRL in one pass: :func:`ftrl_rate` at ``sigma = s L C/(b mu)``.

    ``C`` is the sensitivity of the noise, ``s`` 2 under ``replace_one`` and else 1.

    Parameters
    ----------
    noise : callable
        Such as :func:`tree_noise`, or of a factorisation ``f = factorise(name, T)``: ``T ->
        (f.sensitivity(), PrefixError(sqrt(f.variances()).mean()))``.
    batch_size : int
        At most ``n``.
    quantity : Quantity or its name
        ``"population risk"`` or ``"regret"``.

    Examples
    --------
    >>> from privopt.spec import Budget, ProblemClass
    >>> here = Setting(
    ...     problem_class=ProblemClass(n=1000, dim=20, lipschitz=1.0, radius=1.0),
    ...     budget=Budget(epsilon=1.0, delta=1e-6, relation="replace_one"), mu=0.25)
    >>> [round(dp_ftrl_law(noise)(here).upper, 3) for noise in (tree_noise, toeplitz_noise)]
    [0.704, 0.471]
    """

    def law(setting: Setting) -> Rate:
        return _one_pass(setting, noise, batch_size, FIXED, Quantity.named("quantity", quantity))

    return law


def one_pass_sgd_law(setting: Setting) -> Rate:
    """One pass of noisy SGD, fresh noise and nothing of sampling, at the batch where it is least.

    ``R L sqrt((b + s^2 d/(b mu^2))/n)`` up to rounding: ``b = s sqrt(d)/mu`` within ``[1, n]``, and
    ``R L sqrt(2 s sqrt(d)/(n mu))`` there. Of the order of DP-FTRL, without its logarithms.
    """
    facts, mu = setting.problem_class, setting.mu
    best = setting.budget.relation.multiple * math.sqrt(facts.dim) / mu
    batch_size = max(1, min(facts.n, round(best)))
    moved = Powers(dim=0.5, epsilon=-1.0) if 1.0 < best < facts.n else FIXED
    return _one_pass(setting, fresh_noise, batch_size, moved, Quantity.POPULATION_RISK)


def dp_gd_population_law(setting: Setting) -> Rate:
    """DP-GD for a population, by stability: ``10 n`` full gradients of smooth losses, else ``n^2``.

    ``R L sqrt(2/n + s^2 d/(n mu)^2)`` nearly, if smooth, and more steps gain little.
    """
    facts = setting.problem_class
    smooth = facts.smoothness is not None
    steps = 10 * facts.n if smooth else facts.n**2
    share = setting.budget.relation.multiple * facts.lipschitz / facts.n
    return descent_population_rate(
        facts,
        steps=steps,
        noise_std=share * math.sqrt(steps) / setting.mu,
        steps_powers=Powers(n=1.0 if smooth else 2.0),
    )


def dp_sgd_population_law(
    noise_multiplier: Callable[[Setting], float],
    *,
    steps: int,
    batch_size: float,
    sampler: str = "poisson",
) -> Law:
    """The law of DP-SGD for a population, by stability; its noise comes from an accountant.

    Parameters
    ----------
    noise_multiplier : callable
        Of a setting: the noise's scale over the largest share of one record.
    steps : int
        ``T``.
    batch_size : float
        ``b``, at most ``n``; the expected size of a Poisson batch.
    sampler : str
        ``"poisson"`` or ``"without_replacement"``.

    Examples
    --------
    >>> from privopt.spec import Budget, ProblemClass
    >>> here = Setting(
    ...     problem_class=ProblemClass(n=1000, dim=20, lipschitz=1.0, radius=1.0, smoothness=1.0),
    ...     budget=Budget(epsilon=1.0, delta=1e-6, relation="add_or_remove_one"), mu=0.25)
    >>> round(dp_sgd_population_law(lambda _: 2.0, steps=400, batch_size=50)(here).upper, 3)
    0.068
    """

    def law(setting: Setting) -> Rate:
        facts = setting.problem_class
        return descent_population_rate(
            facts,
            steps=steps,
            noise_std=noise_multiplier(setting) * facts.lipschitz / batch_size,
            batch_size=batch_size,
            sampler=sampler,
        )

    return law


def _one_pass(
    setting: Setting, noise: StreamNoise, batch_size: int, moved: Powers, quantity: Quantity
) -> Rate:
    facts, relation = setting.problem_class, setting.budget.relation
    steps = -(-facts.n // batch_size)
    sensitivity, error = noise(steps)
    share = relation.multiple * facts.lipschitz / batch_size
    return ftrl_rate(
        facts,
        steps=steps,
        noise_std=share * sensitivity / setting.mu,
        error=error,
        quantity=quantity,
        batch_size=batch_size,
        batch_powers=moved,
    )


def _tree(steps: int) -> tuple[float, float]:
    nodes = np.bitwise_count(np.arange(1, steps + 1)).astype(float)
    return math.sqrt(steps.bit_length()), float(np.sqrt(nodes).mean())


def _toeplitz(steps: int) -> tuple[float, float]:
    root = np.cumprod(np.concatenate([[1.0], 1.0 - 0.5 / np.arange(1, steps)]))
    deviations = np.sqrt(np.cumsum(root**2))
    return float(deviations[-1]), float(deviations.mean())


def _grown(noise: Callable[[int], tuple[float, float]], steps: int) -> tuple[float, PrefixError]:
    sensitivity, deviation = noise(steps)
    growth = local_exponent(lambda others: math.prod(noise(others)), steps)
    return sensitivity, PrefixError(deviation, growth=growth)
