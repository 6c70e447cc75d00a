"""Rates: upper and lower bounds as data, one function a theorem. Host side: NumPy, never JAX.

A :class:`Rate` is what a theorem promises at one setting of the public numbers. ``<name>_rate``
makes it from such numbers alone, without a plan; a :data:`Law` makes it from a :class:`Setting`,
so that crossovers can be computed.
"""

from privopt.theory.advantage import (
    Advantage,
    ApproximateAdvantage,
    GaussianAdvantage,
    RenyiAdvantage,
)
from privopt.theory.balanced_minimiser import (
    BalancedMinimiser,
    balanced_minimiser,
    ball_balanced_minimiser,
    pure_balanced_minimiser,
    smoothed_pure_balanced_minimiser,
    smoothing_width,
)
from privopt.theory.bias_reduced import BiasedMoments, bias_reduced_moments, bias_reduced_steps
from privopt.theory.biased_descent import (
    biased_descent_rate,
    biased_descent_step_size,
    inexact_descent_rate,
    inexact_descent_step_size,
)
from privopt.theory.descent import (
    descent_rate,
    noisy_descent_step_size,
    smooth_descent_step_size,
    strongly_convex_descent_step_size,
)
from privopt.theory.descent_numbers import (
    DefaultSteps,
    DescentNumbers,
    descent_batch,
    descent_numbers,
    descent_steps,
)
from privopt.theory.exponential_mechanism import (
    exponential_mechanism_rate,
    exponential_mechanism_regularisation,
)
from privopt.theory.finite_size import (
    RadialLoss,
    gaussian_perturbation,
    gibbs_draw,
    noisy_descent_on_squares,
    norm_laplace_perturbation,
)
from privopt.theory.ftrl import ftrl_batch, ftrl_rate, ftrl_regularisation
from privopt.theory.largest_excess import centre_excess, largest_excess
from privopt.theory.last_iterate import LastIterate, last_iterate
from privopt.theory.linf_output_perturbation import linf_output_perturbation_rate
from privopt.theory.lower_bound import lower_bound
from privopt.theory.lower_bounds import erm_lower_bound, pure_lower_bound
from privopt.theory.noise_norms import NoiseKind, NoiseVector
from privopt.theory.objective_perturbation import (
    objective_perturbation_rate,
    perturbed_objective_regularisation,
)
from privopt.theory.orders import Order
from privopt.theory.output_perturbation import (
    output_perturbation_rate,
    perturbed_minimiser_regularisation,
)
from privopt.theory.perturbation_cost import PerturbationCost, perturbation_cost
from privopt.theory.phased_descent import phase_sizes, phased_descent_step_size, phased_rate
from privopt.theory.population_lower_bound import population_lower_bound
from privopt.theory.prefix_error import PrefixError, local_exponent
from privopt.theory.projected_descent import (
    projected_descent_rate,
    projected_descent_steps,
    projected_gradient,
)
from privopt.theory.projected_error import Body, projected_error, sparse_error
from privopt.theory.rate import (
    GIVEN_STEPS,
    SLOPE_MARGIN,
    LowerBound,
    Powers,
    Quantity,
    Rate,
    Term,
    add,
    no_rate,
)
from privopt.theory.regret_lower_bound import regret_lower_bound
from privopt.theory.setting import Law, Setting, crossovers
from privopt.theory.sparse_laws import SPARSE_LAWS, SPARSE_ORDERS, SparseOrders, only
from privopt.theory.sparse_means import l1_recovery_rate, projection_mechanism_rate
from privopt.theory.stability import (
    descent_population_rate,
    descent_population_step_size,
    generalisation_gap,
)
from privopt.theory.steps import ALL_RECORDS, Moments, OutputRule, StepRule, batch_moments
from privopt.theory.variance_reduction import (
    gradient_difference,
    variance_reduced_period,
    variance_reduced_rate,
    variance_reduced_step_size,
)

__all__ = [
    "ALL_RECORDS",
    "GIVEN_STEPS",
    "SLOPE_MARGIN",
    "SPARSE_LAWS",
    "SPARSE_ORDERS",
    "Advantage",
    "ApproximateAdvantage",
    "BalancedMinimiser",
    "BiasedMoments",
    "Body",
    "DefaultSteps",
    "DescentNumbers",
    "GaussianAdvantage",
    "LastIterate",
    "Law",
    "LowerBound",
    "Moments",
    "NoiseKind",
    "NoiseVector",
    "Order",
    "OutputRule",
    "PerturbationCost",
    "Powers",
    "PrefixError",
    "Quantity",
    "RadialLoss",
    "Rate",
    "RenyiAdvantage",
    "Setting",
    "SparseOrders",
    "StepRule",
    "Term",
    "add",
    "balanced_minimiser",
    "ball_balanced_minimiser",
    "batch_moments",
    "bias_reduced_moments",
    "bias_reduced_steps",
    "biased_descent_rate",
    "biased_descent_step_size",
    "centre_excess",
    "crossovers",
    "descent_batch",
    "descent_numbers",
    "descent_population_rate",
    "descent_population_step_size",
    "descent_rate",
    "descent_steps",
    "erm_lower_bound",
    "exponential_mechanism_rate",
    "exponential_mechanism_regularisation",
    "ftrl_batch",
    "ftrl_rate",
    "ftrl_regularisation",
    "gaussian_perturbation",
    "generalisation_gap",
    "gibbs_draw",
    "gradient_difference",
    "inexact_descent_rate",
    "inexact_descent_step_size",
    "l1_recovery_rate",
    "largest_excess",
    "last_iterate",
    "linf_output_perturbation_rate",
    "local_exponent",
    "lower_bound",
    "no_rate",
    "noisy_descent_on_squares",
    "noisy_descent_step_size",
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
    "population_lower_bound",
    "projected_descent_rate",
    "projected_descent_steps",
    "projected_error",
    "projected_gradient",
    "projection_mechanism_rate",
    "pure_balanced_minimiser",
    "pure_lower_bound",
    "regret_lower_bound",
    "smooth_descent_step_size",
    "smoothed_pure_balanced_minimiser",
    "smoothing_width",
    "sparse_error",
    "strongly_convex_descent_step_size",
    "variance_reduced_period",
    "variance_reduced_rate",
    "variance_reduced_step_size",
]
