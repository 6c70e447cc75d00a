"""What many tests build."""

import math

from scipy import stats

from privopt.convex import Oracle
from privopt.privacy.releases import release_of

DECLARED = {
    "name": "demo",
    "title": "A demonstration",
    "description": "Nothing in particular.",
    "algorithms": {"dp_gd": {"steps": 5}},
    "families": ("linear",),
    "relation": "replace_one",
    "delta": 1e-6,
    "checks": ("bound",),
    "replicates": {"quick": 4, "full": 8},
}


N, DIM = 60, 3  # the most in which every algorithm runs
SHAPE = {"capacity": N, "output": "average"}  # theory chooses both by the numbers
CHOICES = {  # one program each, whatever the numbers
    "gradient_descent": {"steps": 30, "output": "average"},
    "dp_gd": {"steps": 30, "output": "average"},
    "dp_sgd": {"steps": 30, "batch_size": 12, **SHAPE},
    "dp_svrg": {"steps": 30, "batch_size": 12, "anchor_every": 5, **SHAPE},
    "bias_reduced_sgd": {"steps": 4, "base": 15, "body": "none"},
    "dp_ftrl": {"batch_size": 12},
    "noisy_adam": {"steps": 30, "batch_size": 12, "capacity": N},
    "phased_sgd": {},
    "output_perturbation": {},
    "linf_output_perturbation": {},
    "objective_perturbation": {},
    "approximate_minima_perturbation": {},
    "exponential_mechanism": {},
    "projection_mechanism": {"noise": "gaussian"},
    "l1_recovery": {"measurements": 2},
    "sufficient_statistics": {},
}
ALIKE = {  # see the data by the mechanism of another, which stands for them where that is all
    "gradient_descent": "dp_gd",
    "noisy_adam": "dp_sgd",
    "linf_output_perturbation": "output_perturbation",
    "approximate_minima_perturbation": "objective_perturbation",
}


def experiment(**changes):
    """A declared experiment at n = 1000 and d = 4."""
    from privopt.lab import Experiment, Setting  # not for all who build anything

    return Experiment(**{**DECLARED, "base": Setting(n=1000, dim=4, epsilon=1.0), **changes})


def most_allowed(trials, probability):
    """Counts above this have probability below 1e-6 if each trial fails with ``probability``."""
    return int(stats.binom.isf(1e-6, trials, probability))


class Answers(Oracle):
    """An oracle of functions; ``draw`` gives the batches of a block, ``stop`` ends the run."""

    def __init__(
        self, steps, ask, begin=lambda point: (), *, draw=None, block=0, stop=None, secret=None
    ):
        self.steps, self.block, self.stops = steps, block, stop is not None
        self._ask, self.begin, self.draw, self.is_over = ask, begin, draw, stop
        self.secret = secret or super().secret

    def ask(self, memory, t, point, batch=None):
        return self._ask(memory, t, point, *([] if self.block == 0 else [batch]))


def descend(method, oracle, constraint, start, key, **watching):
    """The whole run of a method."""
    return method.of(oracle, constraint, start, key, **watching).run()


def dominating_pairs(event, relation):
    """The pairs that dominate one release: a record removed, and added; None if none are known."""

    release = release_of(event)
    return None if release is None else release.pairs(relation)


def operations(jaxpr, around=()):
    """Every equation of a program with the names of the loops and branches around it."""
    for equation in jaxpr.eqns:
        yield equation, around
        name = equation.primitive.name
        inside = (*around, name) if name in ("while", "cond", "scan") else around
        for value in equation.params.values():
            for part in value if isinstance(value, tuple | list) else (value,):
                nested = getattr(part, "jaxpr", part)
                if hasattr(nested, "eqns"):
                    yield from operations(nested, inside)


def largest(jaxpr):
    """Numbers in the largest array that a program makes, whatever loops it is in."""
    made = (out.aval for equation, _ in operations(jaxpr) for out in equation.outvars)
    return max(math.prod(getattr(aval, "shape", ())) for aval in made)
