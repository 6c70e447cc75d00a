"""Rates: upper and lower bounds as data, one function per theorem. Host side: NumPy, never JAX.

A :class:`Rate` is the bound of a theorem at one problem class and budget. ``<name>_rate`` computes
it from public numbers; a law uses a :class:`LawSetting`. Proofs are in the theory pages.
"""

# isort: off
from privopt.theory.accelerated_descent import (
    AcceleratedNumbers, accelerated_numbers, accelerated_rate, accelerated_steps,
)  # fmt: skip
from privopt.theory.advantage import (
    Advantage, ApproximateAdvantage, GaussianAdvantage, RenyiAdvantage,
)  # fmt: skip
from privopt.theory.biased_descent import (
    BiasedMoments, bias_reduced_moments, bias_reduced_steps, biased_descent_rate,
    biased_descent_step_size, inexact_descent_step_size, projected_descent_rate,
    projected_descent_steps, projected_gradient,
)  # fmt: skip
from privopt.theory.descent import (
    DefaultSteps, descent_batch, descent_numbers, descent_rate, descent_steps,
)  # fmt: skip
from privopt.theory.finite_size import (
    RadialLoss, gaussian_perturbation, gibbs_draw, noisy_descent_on_squares,
    norm_laplace_perturbation,
)  # fmt: skip
from privopt.theory.ftrl import (
    PrefixError, ftrl_batch, ftrl_rate, ftrl_regularisation, local_exponent,
)  # fmt: skip
from privopt.theory.generalisation import (
    descent_population_rate, descent_population_step_size, expected_generalisation,
    generalisation_gap, information_generalisation, phase_sizes, phased_descent_step_size,
    phased_rate,
)  # fmt: skip
from privopt.theory.laws import SPARSE_LAWS, SPARSE_ORDERS, LawSetting
from privopt.theory.linf_output_perturbation import (
    BalancedMinimiser, balanced_minimiser, ball_balanced_minimiser, linf_output_perturbation_rate,
    minimiser_stability, perturbation_cost, pure_balanced_minimiser,
    smoothed_pure_balanced_minimiser, smoothing_width,
)  # fmt: skip
from privopt.theory.lower_bounds import hard_data_bounds, lower_bound
from privopt.theory.one_shot import (
    exponential_mechanism_rate, exponential_mechanism_regularisation, objective_perturbation_rate,
    perturbed_objective_regularisation, sufficient_statistics_rate, sufficient_statistics_weight,
)  # fmt: skip
from privopt.theory.output_perturbation import (
    ball_perturbation_rate, ball_perturbation_regularisation, output_perturbation_rate,
    perturbed_minimiser_regularisation, unprojected_perturbation_rate,
    unprojected_perturbation_regularisation,
)  # fmt: skip
from privopt.theory.passes import (
    Gains, PrefixVariance, QuadraticRisk, passes_rate, quadratic_gains,
)  # fmt: skip
from privopt.theory.rate import GIVEN_STEPS, Exponents, LowerBound, Quantity, Rate, Term, no_rate
from privopt.theory.sparse_means import Body, l1_recovery_rate, projection_mechanism_rate
from privopt.theory.steps import ALL_RECORDS, BatchMoments, OutputRule, StepRule, batch_moments
from privopt.theory.variance_reduction import (
    gradient_difference, variance_reduced_period, variance_reduced_rate, variance_reduced_step_size,
)  # fmt: skip
# isort: on

__all__ = [
    "ALL_RECORDS",
    "GIVEN_STEPS",
    "SPARSE_LAWS",
    "SPARSE_ORDERS",
    "AcceleratedNumbers",
    "Advantage",
    "ApproximateAdvantage",
    "BalancedMinimiser",
    "BatchMoments",
    "BiasedMoments",
    "Body",
    "DefaultSteps",
    "Exponents",
    "Gains",
    "GaussianAdvantage",
    "LawSetting",
    "LowerBound",
    "OutputRule",
    "PrefixError",
    "PrefixVariance",
    "QuadraticRisk",
    "Quantity",
    "RadialLoss",
    "Rate",
    "RenyiAdvantage",
    "StepRule",
    "Term",
    "accelerated_numbers",
    "accelerated_rate",
    "accelerated_steps",
    "balanced_minimiser",
    "ball_balanced_minimiser",
    "ball_perturbation_rate",
    "ball_perturbation_regularisation",
    "batch_moments",
    "bias_reduced_moments",
    "bias_reduced_steps",
    "biased_descent_rate",
    "biased_descent_step_size",
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
    "hard_data_bounds",
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
    "output_perturbation_rate",
    "passes_rate",
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
    "quadratic_gains",
    "smoothed_pure_balanced_minimiser",
    "smoothing_width",
    "sufficient_statistics_rate",
    "sufficient_statistics_weight",
    "unprojected_perturbation_rate",
    "unprojected_perturbation_regularisation",
    "variance_reduced_period",
    "variance_reduced_rate",
    "variance_reduced_step_size",
]  # fmt: skip
