"""Rates: upper and lower bounds, one function a theorem. Host side: NumPy, never JAX."""

from privopt.theory.descent import (
    last_of_noisy_descent,
    noise_limited_steps,
    noisy_descent,
    noisy_descent_step_size,
    noisy_strongly_convex_descent,
    sampled_second_moment,
)
from privopt.theory.exponential_mechanism import (
    exponential_mechanism,
    exponential_mechanism_regularisation,
)
from privopt.theory.lower_bounds import (
    approximate_dp_advantage,
    erm_lower_bound,
    gaussian_dp_advantage,
)
from privopt.theory.objective_perturbation import (
    tilted_minimiser,
    tilted_minimiser_regularisation,
)
from privopt.theory.output_perturbation import (
    perturbed_minimiser,
    perturbed_minimiser_regularisation,
    perturbed_stationary_minimiser,
)
from privopt.theory.phased_descent import (
    phase_sizes,
    phased_descent,
    phased_descent_step_size,
)
from privopt.theory.population_lower_bound import population_lower_bound
from privopt.theory.rate import Rate
from privopt.theory.variance_reduction import (
    gradient_difference,
    variance_reduced_descent,
    variance_reduced_step_size,
)

__all__ = [
    "Rate",
    "approximate_dp_advantage",
    "erm_lower_bound",
    "exponential_mechanism",
    "exponential_mechanism_regularisation",
    "gaussian_dp_advantage",
    "gradient_difference",
    "last_of_noisy_descent",
    "noise_limited_steps",
    "noisy_descent",
    "noisy_descent_step_size",
    "noisy_strongly_convex_descent",
    "perturbed_minimiser",
    "perturbed_minimiser_regularisation",
    "perturbed_stationary_minimiser",
    "phase_sizes",
    "phased_descent",
    "phased_descent_step_size",
    "population_lower_bound",
    "sampled_second_moment",
    "tilted_minimiser",
    "tilted_minimiser_regularisation",
    "variance_reduced_descent",
    "variance_reduced_step_size",
]
