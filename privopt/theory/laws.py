"""The laws of methods whose noise has a closed form, at their default numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from privopt.theory.descent_numbers import descent_numbers, descent_steps
from privopt.theory.descent_rate import descent_rate
from privopt.theory.exponential_mechanism import (
    exponential_mechanism_rate,
    exponential_mechanism_regularisation,
)
from privopt.theory.largest_excess import centre_excess
from privopt.theory.output_perturbation import (
    output_perturbation_rate,
    perturbed_minimiser_regularisation,
)
from privopt.theory.phased_descent import phased_descent_step_size, phased_rate
from privopt.theory.population_laws import (
    dp_ftrl_law,
    dp_gd_population_law,
    one_pass_sgd_law,
    toeplitz_noise,
    tree_noise,
)
from privopt.theory.rate import FIXED, Quantity, Rate, Term
from privopt.theory.setting import Law, Setting

__all__ = ["LAWS"]


def _sensitivity(setting: Setting) -> float:
    """``s``, of the mean gradient: ``2 L/n`` under ``replace_one``, else ``L/n``."""
    facts = setting.problem_class
    return setting.budget.relation.multiple * facts.lipschitz / facts.n


def dp_gd_law(setting: Setting) -> Rate:
    """DP-GD by the theorem with the smallest bound, ``sigma = s sqrt(T)/mu``."""
    facts, one = setting.problem_class, _sensitivity(setting) / setting.mu
    default = descent_steps(facts, one_step_noise=one)
    steps, noise_std = default.steps, one * math.sqrt(default.steps)
    step_rule, output = descent_numbers(facts, steps=steps, noise_std=noise_std)
    return descent_rate(
        facts,
        steps=steps,
        step_rule=step_rule,
        output=output,
        noise_std=noise_std,
        steps_powers=default.powers,
    )


def non_smooth_dp_gd_law(setting: Setting) -> Rate:
    """DP-GD as if no smoothness were declared."""
    facts = replace(setting.problem_class, smoothness=None)
    return dp_gd_law(replace(setting, problem_class=facts))


def output_perturbation_law(setting: Setting) -> Rate:
    """Output perturbation with Gaussian noise at the balanced ``lambda``, solved exactly.

    The norm of the noise is bounded by ``sigma sqrt(d)``.
    """
    facts = setting.problem_class
    unit = _sensitivity(setting) / setting.mu * math.sqrt(facts.dim)
    regularisation = perturbed_minimiser_regularisation(facts, unit_noise_norm=unit)
    return output_perturbation_rate(
        facts,
        regularisation=regularisation,
        noise_norm=unit / regularisation,
        noise_square=(unit / regularisation) ** 2,
        gaussian=True,
        balanced=True,
    )


def exponential_mechanism_law(setting: Setting) -> Rate:
    """The regularised exponential mechanism, ``k = m mu^2/s^2``, whatever the dimension."""
    facts, s, mu = setting.problem_class, _sensitivity(setting), setting.mu
    regularisation = exponential_mechanism_regularisation(facts, sensitivity=s, mu=mu)
    return exponential_mechanism_rate(
        facts,
        temperature=s**2 / (regularisation * mu**2),
        regularisation=regularisation,
        pure=False,
    )


def pure_exponential_mechanism_law(setting: Setting) -> Rate:
    """The exponential mechanism, ``k = epsilon/(2 R s)``."""
    facts = setting.problem_class
    temperature = 2.0 * facts.radius * _sensitivity(setting) / setting.budget.epsilon
    return exponential_mechanism_rate(facts, temperature=temperature, pure=True)


def public_start_law(setting: Setting) -> Rate:
    """The centre of the set, released without a look at the data: ``L R``, or less."""
    facts = setting.problem_class
    return Rate(
        quantity=Quantity.EMPIRICAL_RISK,
        theorem="E F(w) - F* <= (L - m R) x - m x^2/2, x = min(R, L/m - R)",
        source="every loss is L-Lipschitz and m-strongly convex",
        terms=(Term("start", centre_excess(facts), FIXED),),
        regime="any",
    )


def phased_sgd_law(setting: Setting) -> Rate:
    """Phased SGD at its best first step, for the risk of a population."""
    facts, unit = setting.problem_class, _sensitivity(setting) * setting.problem_class.n
    unit /= setting.mu
    step_size = phased_descent_step_size(facts, unit_noise_std=unit)
    return phased_rate(facts, step_size=step_size, noise_std=unit * step_size)


LAWS: Mapping[str, Law] = MappingProxyType(
    {
        "dp_gd": dp_gd_law,
        "non_smooth_dp_gd": non_smooth_dp_gd_law,
        "output_perturbation": output_perturbation_law,
        "exponential_mechanism": exponential_mechanism_law,
        "pure_exponential_mechanism": pure_exponential_mechanism_law,
        "public_start": public_start_law,
        "phased_sgd": phased_sgd_law,
        "dp_ftrl_tree": dp_ftrl_law(tree_noise),
        "dp_ftrl_toeplitz": dp_ftrl_law(toeplitz_noise),
        "one_pass_sgd": one_pass_sgd_law,
        "dp_gd_population": dp_gd_population_law,
    }
)
"""Laws by name, the last five of the population risk.

``public_start`` is nobody's algorithm: the bound of saying nothing.
"""
