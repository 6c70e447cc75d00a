"""Program in which beartype checks every shape that privopt declares.

``python tests/shapes.py`` imports privopt with the import hook of jaxtyping, traces each algorithm
once, and prints the number of functions with a checked shape. Annotations without a shape are not
checked: mypy does that.
"""

import re
from functools import partial

import beartype
import jax
import jaxtyping
import numpy as np

SHAPE = re.compile(r"\b(Bool|Float|Float64|Int|Int32|Int64|Key|UInt32)\[")
N, DIM = 60, 3
CHOICES = {
    "accelerated_dp_gd": {"steps": 3},
    "approximate_minima_perturbation": {},
    "bias_reduced_sgd": {"steps": 2, "base": 15},
    "dp_ftrl": {"batch_size": 12},
    "dp_gd": {"steps": 3},
    "dp_sgd": {"steps": 3, "batch_size": 12},
    "dp_svrg": {"steps": 3, "batch_size": 12},
    "exponential_mechanism": {},
    "gradient_descent": {"steps": 3},
    "l1_recovery": {"measurements": 2},
    "linf_output_perturbation": {},
    "noisy_adam": {"steps": 3, "batch_size": 12},
    "objective_perturbation": {},
    "output_perturbation": {},
    "phased_sgd": {},
    "projection_mechanism": {},
    "sufficient_statistics": {},
}
checked_functions = set()


def checked(function):
    """Check the annotations of ``function`` that contain a shape, and no other."""
    hints = {
        name: hint for name, hint in function.__annotations__.items() if SHAPE.search(str(hint))
    }
    function.__annotations__ = hints
    checked_functions.update({function.__qualname__} if hints else ())
    return beartype.beartype(function) if hints else function


def declare(name):
    """Return the public facts, a budget and a problem for an algorithm."""
    from privopt import Budget, ProblemClass, problems

    rng = np.random.default_rng(0)
    rows = rng.normal(size=(N, DIM))
    rows[:, 0] = 0.0
    rows /= 1.001 * np.linalg.norm(rows, axis=1, keepdims=True)
    budget = Budget(epsilon=1.0, delta=1e-5, relation="replace_one")
    if name in ("l1_recovery", "projection_mechanism"):
        facts = ProblemClass(
            n=N,
            dim=DIM,
            lipschitz=2.0,
            radius=1.0,
            smoothness=1.0,
            strong_convexity=1.0,
            sparsity=2,
        )
        return facts, budget, problems.squared_distance(rows, problem_class=facts)
    lipschitz = 3.0 if name == "sufficient_statistics" else 1.0
    facts = ProblemClass(
        n=N, dim=DIM, lipschitz=lipschitz, radius=2.0, smoothness=1.0, sparsity=DIM
    )
    loss = problems.squared if name == "sufficient_statistics" else problems.logistic
    return facts, budget, loss(rows, np.sign(rows[:, 1]), problem_class=facts)


def main():
    """Declare, plan and trace, with every algorithm."""
    jax.config.update("jax_enable_x64", True)
    with jaxtyping.install_import_hook("privopt", "shapes.checked"):
        import privopt
        from privopt import convex, problems

        key = jax.random.key(0)
        for name, choices in CHOICES.items():
            facts, budget, problem = declare(name)
            plan = privopt.ALGORITHMS[name].plan(facts, budget, **choices)
            run = jax.eval_shape(partial(privopt.run, plan, problem), key)
            assert run.released.shape == (DIM,), name
        assert CHOICES.keys() == privopt.ALGORITHMS.keys()

        facts, budget, problem = declare("dp_sgd")
        problem.check()
        plan = privopt.dp_sgd(facts, budget, steps=3, batch_size=12)
        many = jax.eval_shape(partial(privopt.run_many, [plan], problem), jax.random.split(key, 2))
        assert many.released.shape == (1, 2, DIM)
        stepper = privopt.stepper(plan, problem)
        state = stepper.step(stepper.init(key))
        rows, mask = stepper.rows(state)
        assert rows.shape == mask.shape
        for noise in ("tree", "toeplitz", "buffered"):
            plan = privopt.dp_ftrl(facts, budget, batch_size=12, noise=noise)
            jax.eval_shape(partial(privopt.run, plan, problem), key)
        assert problem.excess_risk(np.zeros(DIM)) >= 0.0

        points = jax.numpy.ones((2, DIM))
        for constraint in (convex.L1Ball(1.0), convex.L2Ball(1.0), convex.L1L2Ball(1.0, 1.0)):
            assert constraint.contains(constraint.project(points), 1e-9).all()
        losses = (problems.absolute, problems.hinge, problems.squared)
        data = np.asarray(problem.data[0]), np.ones(N)
        for loss in losses:
            assert loss(*data, problem_class=facts).risk(np.zeros(DIM)) >= 0.0

        rejected = False
        try:
            convex.norm(jax.numpy.asarray(1.0))  # a planted error: a number has no last axis
        except jaxtyping.TypeCheckError:
            rejected = True
        assert rejected
    print(f"{len(checked_functions)} functions with checked shapes")


if __name__ == "__main__":
    import shapes  # the hook imports this module by name

    shapes.main()
