"""Defects of experiments: outdated results, and exponents that do not come from a measurement."""

from dataclasses import fields

import numpy as np
from museum.exhibits import exhibit

from privopt.lab.evaluation.cells import CellResult
from privopt.lab.evaluation.slopes import evaluate_controls
from privopt.lab.evaluation.sweep import make_sweep
from privopt.lab.runner.cache_key import user_code
from privopt.lab.runner.cells import Trial

SOURCE = """
SHRINK = 1.0

def helper(point):
    return SHRINK * point

def run(point):
    return helper(point)
"""


def function(source):
    names = {"__name__": "mine"}
    exec(compile(source, "mine.py", "exec"), names)
    return names["run"]


@exhibit(
    user_code,
    lambda run: run.__qualname__,
    lambda run: run.__code__.co_code,
)
def test_an_edit_is_another_experiment(print_of):
    """Results identified by a name only; checked by an edit of an imported function."""
    first = print_of(function(SOURCE))
    assert print_of(function(SOURCE + "# a remark")) == first
    assert print_of(function(SOURCE.replace("1.0", "0.5"))) != first
    assert print_of(function(SOURCE.replace("SHRINK * point", "point - SHRINK"))) != first


UNUSED = dict.fromkeys(each.name for each in fields(CellResult))
TOY = {"experiment": "toy", "method": "mine", "family": "linear", "strength": 1.0, "gap": 0.0}
PLANNED = {"mu": 0.25, "private": True, "exponents": {"n": -1.0}, "axes": frozenset({"n"})}


def cells(trial, power, seed):
    """Return cells with means proportional to ``n^power`` and a relative error of a tenth."""
    rng, found = np.random.default_rng(seed), []
    for n in (500, 1000, 2000, 4000, 8000):
        values = n**power * np.exp(0.1 * rng.normal(size=40))
        here = {"trial": trial, "root_seed": 7, "setting": {"n": n, "epsilon": 1.0}}
        found.append(CellResult(**(UNUSED | TOY | PLANNED | here | {"values": values})))
    return found


def beside_its_control(found):
    (off,) = (each for each in evaluate_controls(found, "n", 0.01) if each.name == "noise off")
    return off.outcome == "differs" and alone(found)


def alone(found):
    return abs(make_sweep(found, "n").fit(0.01).estimate.value + 1.0) < 0.05


@exhibit(beside_its_control, alone)
def test_an_exponent_that_is_there_without_noise_shows_nothing(holds):
    """Exponents of the parameters of a plan; checked by the same sweep without noise."""
    assert holds(cells(Trial.MEASURED, -1.0, 0) + cells(Trial.NOISE_OFF, -0.3, 1))
    assert not holds(cells(Trial.MEASURED, -1.0, 0) + cells(Trial.NOISE_OFF, -1.0, 1))
    assert not holds(cells(Trial.MEASURED, -0.7, 0) + cells(Trial.NOISE_OFF, -0.3, 1))
