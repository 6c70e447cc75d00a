"""Rates: upper and lower bounds as data, one function a theorem. Host side: NumPy, never JAX.

A :class:`Rate` is what a theorem promises at one setting of the public numbers. ``<name>_rate``
makes it from such numbers alone; a law makes it from a :class:`Setting`.
"""

# isort: off
from privopt.theory.advantage import (
    Advantage, ApproximateAdvantage, GaussianAdvantage, RenyiAdvantage,
)  # fmt: skip
from privopt.theory.biased_descent import (
    BiasedMoments, bias_reduced_moments, bias_reduced_steps, biased_descent_rate,
    biased_descent_step_size, inexact_descent_step_size,
)  # fmt: skip
from privopt.theory.descent import descent_rate
from privopt.theory.descent_numbers import (
    DefaultSteps, descent_batch, descent_numbers, descent_steps,
)  # fmt: skip
from privopt.theory.exponential_mechanism import (
    exponential_mechanism_rate, exponential_mechanism_regularisation,
)  # fmt: skip
from privopt.theory.finite_size import (
    RadialLoss, gaussian_perturbation, gibbs_draw, noisy_descent_on_squares,
    norm_laplace_perturbation,
)  # fmt: skip
from privopt.theory.ftrl import (
    PrefixError, ftrl_batch, ftrl_rate, ftrl_regularisation, local_exponent,
)  # fmt: skip
from privopt.theory.generalisation import expected_generalisation, information_generalisation
from privopt.theory.linf_output_perturbation import (
    BalancedMinimiser, balanced_minimiser, ball_balanced_minimiser, linf_output_perturbation_rate,
    minimiser_stability,
    perturbation_cost, pure_balanced_minimiser, smoothed_pure_balanced_minimiser, smoothing_width,
)  # fmt: skip
from privopt.theory.lower_bounds import lower_bound
from privopt.theory.perturbation import (
    objective_perturbation_rate, perturbed_objective_regularisation,
)  # fmt: skip
from privopt.theory.perturbation import (
    output_perturbation_rate, perturbed_minimiser_regularisation,
)  # fmt: skip
from privopt.theory.phased_descent import phase_sizes, phased_descent_step_size, phased_rate
from privopt.theory.projected_descent import (
    projected_descent_rate, projected_descent_steps, projected_gradient,
)  # fmt: skip
from privopt.theory.rate import GIVEN_STEPS, LowerBound, Powers, Quantity, Rate, Term, no_rate
from privopt.theory.setting import Setting, crossovers
from privopt.theory.sparse_laws import SPARSE_LAWS, SPARSE_ORDERS, only
from privopt.theory.sparse_means import Body, l1_recovery_rate, projection_mechanism_rate
from privopt.theory.stability import (
    descent_population_rate, descent_population_step_size, generalisation_gap,
)  # fmt: skip
from privopt.theory.steps import ALL_RECORDS, Moments, OutputRule, StepRule, batch_moments
from privopt.theory.sufficient_statistics import (
    sufficient_statistics_rate, sufficient_statistics_weight,
)  # fmt: skip
from privopt.theory.variance_reduction import (
    gradient_difference, variance_reduced_period, variance_reduced_rate, variance_reduced_step_size,
)  # fmt: skip
# isort: on

__all__ = [
    "ALL_RECORDS",
    "GIVEN_STEPS",
    "SPARSE_LAWS",
    "SPARSE_ORDERS",
    "Advantage",
    "ApproximateAdvantage",
    "BalancedMinimiser",
    "BiasedMoments",
    "Body",
    "DefaultSteps",
    "GaussianAdvantage",
    "LowerBound",
    "Moments",
    "OutputRule",
    "Powers",
    "PrefixError",
    "Quantity",
    "RadialLoss",
    "Rate",
    "RenyiAdvantage",
    "Setting",
    "StepRule",
    "Term",
    "balanced_minimiser",
    "ball_balanced_minimiser",
    "batch_moments",
    "bias_reduced_moments",
    "bias_reduced_steps",
    "biased_descent_rate",
    "biased_descent_step_size",
    "crossovers",
    "descent_batch",
    "descent_numbers",
    "descent_population_rate",
    "descent_population_step_size",
    "descent_rate",
    "descent_steps",
    "expected_generalisation",
    "exponential_mechanism_rate",
    "exponential_mechanism_regularisation",
    "ftrl_batch",
    "ftrl_rate",
    "ftrl_regularisation",
    "gaussian_perturbation",
    "generalisation_gap",
    "gibbs_draw",
    "gradient_difference",
    "inexact_descent_step_size",
    "information_generalisation",
    "l1_recovery_rate",
    "linf_output_perturbation_rate",
    "local_exponent",
    "lower_bound",
    "minimiser_stability",
    "no_rate",
    "noisy_descent_on_squares",
    "norm_laplace_perturbation",
    "objective_perturbation_rate",
    "only",
    "output_perturbation_rate",
    "perturbation_cost",
    "perturbed_minimiser_regularisation",
    "perturbed_objective_regularisation",
    "phase_sizes",
    "phased_descent_step_size",
    "phased_rate",
    "projected_descent_rate",
    "projected_descent_steps",
    "projected_gradient",
    "projection_mechanism_rate",
    "pure_balanced_minimiser",
    "smoothed_pure_balanced_minimiser",
    "smoothing_width",
    "sufficient_statistics_rate",
    "sufficient_statistics_weight",
    "variance_reduced_period",
    "variance_reduced_rate",
    "variance_reduced_step_size",
]  # fmt: skip
