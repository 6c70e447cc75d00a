"""Private robust regression with the pseudo-Huber loss, declared as a function of one record."""

import jax
import jax.numpy as jnp
import numpy as np

import privopt


def pseudo_huber(w, record):
    x, y = record
    return jnp.sqrt(1.0 + (x @ w - y) ** 2) - 1.0


rng = np.random.default_rng(0)
x = rng.normal(size=(2000, 5))
x /= np.linalg.norm(x, axis=1, keepdims=True)
y = x @ np.array([2.0, -1.0, 0.5, 0.0, 0.0]) + rng.standard_cauchy(2000) / 10
# Both derivatives of the loss are at most 1, so features of norm 1 give these constants.
facts = privopt.ProblemClass(n=2000, dim=5, lipschitz=1.0, radius=3.0, smoothness=1.0)
problem = privopt.problems.Problem(loss=pseudo_huber, data=(x, y), problem_class=facts)
problem.check()  # for public data only
for epsilon in (0.1, 1.0, 10.0):
    budget = privopt.Budget(epsilon=epsilon, delta=1e-6, relation="replace_one")
    plan = privopt.dp_gd(facts, budget)
    released = privopt.run(plan, problem, jax.random.key(0)).released
    risk, bound = problem.excess_risk(released), plan.rate.upper
    print(f"epsilon {epsilon:4}: excess risk {risk:.5f}, bound {bound:.3f}")
print(f"zero predictor: {problem.excess_risk(np.zeros(5)):.3f}")
