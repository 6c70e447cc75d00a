"""Accuracy and excess risk on real data along epsilon, beside peers at the same guarantee.

The peers have environments of their own: ``benchmarks/real_accuracy.py`` runs them on the records
of `split` and writes their numbers to ``results/performance/real_accuracy.json``, read here.
"""

import json
import math
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np
from scipy.stats import t as student

import privopt
from privopt import problems
from privopt.lab import Claim, Column, Line, Listing, Panel, Plot, Study, replicate_keys, stream

EPSILONS, DELTA, RELATION = (0.1, 0.3, 1.0, 3.0, 10.0), 1e-6, "replace_one"
PEERS = Path(__file__).parents[2] / "results" / "performance" / "real_accuracy.json"


class Records(NamedTuple):
    """A real data set, how it is scaled in words, and what is asked of it."""

    data: str
    rule: str
    test: str = ""  # the published test part; else a fifth of the public order is held out
    first: int | None = None  # so many of the public order are learned from
    classes: int = 2
    radius: float = 10.0
    runs: int = 10
    most_steps: int = 1000


CUT = "rows cut to norm 1"
SETS = {
    "breast_cancer": Records("breast_cancer", "features over public bounds and √30"),
    "a9a": Records("a9a", "records over √14", "a9a_test"),
    "w8a": Records("w8a", CUT, runs=5),
    "covertype": Records("covertype", f"numbers over public ranges, {CUT}", runs=5),
    "kddcup99": Records("kddcup99", f"logs over bounds, {CUT}", "kddcup99_test", 20_000, runs=5),
    "digits": Records("digits", "pixels over 128", classes=10),
    "mnist": Records("mnist", f"2 × 2 means over 255, {CUT}", "mnist_test", None, 10, 30.0, 5, 500),
}
HERE = {*problems.available(), ""}
THERE = [name for name, each in SETS.items() if {each.data, each.test} <= HERE]


class Split(NamedTuple):
    """Records to learn from, and held out ones; labels are -1 and 1, or numbers of classes."""

    features: np.ndarray
    labels: np.ndarray
    held_out: np.ndarray
    answers: np.ndarray


@cache
def split(name):
    """The published test part, or a fifth of the public order, is held out."""
    of = SETS[name]
    whole = problems.DATASETS[of.data]()
    size = len(whole.labels)
    whole = whole.subset(size)
    size = of.first or size if of.test else size * 4 // 5
    test = problems.DATASETS[of.test]() if of.test else whole
    after = 0 if of.test else size
    labels, answers = (each.labels if of.classes == 2 else each.classes for each in (whole, test))
    return Split(whole.features[:size], labels[:size], test.features[after:], answers[after:])


@cache
def problem(name):
    """Logistic or softmax regression over the ball, declared by the rules of scaling."""
    data, of = split(name), SETS[name]
    n, columns = data.features.shape
    declared = partial(privopt.ProblemClass, n=n, radius=of.radius)
    if of.classes == 2:
        facts = declared(dim=columns, lipschitz=1.0, smoothness=0.25)
        return problems.logistic(data.features, data.labels, problem_class=facts, name=name)
    facts = declared(dim=columns * of.classes, lipschitz=math.sqrt(2.0), smoothness=0.5)
    return problems.multinomial(
        data.features, data.labels, classes=range(of.classes), problem_class=facts, name=name
    )


def accuracy(name, points):
    """Share of the held out records, one number a point."""
    data = split(name)
    if SETS[name].classes == 2:
        return np.mean((data.answers > 0.0) == (data.held_out @ points.T > 0.0).T, axis=1)
    guesses = [np.argmax(data.held_out @ point.T, axis=1) for point in points]
    return np.mean(np.array(guesses) == data.answers, axis=1)


ONCE = {
    "objective": "objective_perturbation",
    "amp": "approximate_minima_perturbation",
    "output": "output_perturbation",
    "pure": "objective_perturbation",
}
DEFAULTS = ("dp_gd", "dp_sgd", "noisy_adam", "dp_ftrl")
STEPS = {name: name for name in DEFAULTS} | {"tuned": "dp_sgd"}
BATCH, TUNED_STEPS, GRID, PILOTS = 512, 200, tuple(4.0**k for k in range(-1, 4)), 3


def methods_of(name):
    """Objective perturbation is for losses of one score; MNIST has batches alone."""
    if name == "mnist":
        return {method: STEPS[method] for method in STEPS if method != "dp_gd"}
    return ONCE | STEPS if SETS[name].classes == 2 else {"output": ONCE["output"]} | STEPS


def planner(name, method, epsilon):
    """The method's ``plan`` of that problem's class, at that budget."""
    budget = privopt.Budget(
        epsilon=epsilon, delta=0.0 if method == "pure" else DELTA, relation=RELATION
    )
    algorithm = privopt.ALGORITHMS[methods_of(name)[method]]
    return partial(algorithm.plan, problem(name).problem_class, budget)


def plan_of(name, method, epsilon):
    """Default numbers, held to so many steps; or the best of a grid, which no budget pays for."""
    if method == "tuned":
        return oracle_tuned(name)[epsilon]
    told = planner(name, method, epsilon)
    plan, most = told(), 500 if method == "dp_gd" else SETS[name].most_steps
    steps = getattr(plan.params.mechanism, "steps", 0)
    return told(steps=most) if method != "dp_ftrl" and steps > most else plan


@cache
def oracle_tuned(name):
    """For each epsilon the plan of least mean risk in pilot runs, by step sizes of `GRID`."""
    where, keys = problem(name), replicate_keys(stream(0, role="pilot", problem=name), PILOTS)
    told = {"steps": TUNED_STEPS, "output": "average"}
    told["batch_size"] = min(BATCH, where.problem_class.n // 4)
    asked = [planner(name, "tuned", epsilon) for epsilon in EPSILONS]
    plans = [plan(step_size=size, **told) for plan in asked for size in GRID]
    risks = where.excess_risk(np.asarray(privopt.run_many(plans, where, keys).released))
    best = risks.mean(axis=1).reshape(len(EPSILONS), len(GRID)).argmin(axis=1)
    return {each: plans[k * len(GRID) + best[k]] for k, each in enumerate(EPSILONS)}


def summary(quantity, values):
    """Mean, and its 95 % interval by Student's law."""
    mean, count = float(np.mean(values)), len(values)
    half = student.ppf(0.975, count - 1) * float(np.std(values, ddof=1)) / math.sqrt(count)
    return {quantity: mean, f"{quantity}_within": privopt.Interval(mean - half, mean + half)}


def runs(name):
    """``{(method, epsilon): (bound or None, accuracies, excess risks)}``."""
    where, found = problem(name), {}
    for method in methods_of(name):
        for epsilon in EPSILONS:
            plan = plan_of(name, method, epsilon)
            key = stream(0, role="noise", method=method, problem=name, epsilon=epsilon)
            keys = replicate_keys(key, SETS[name].runs)
            points = np.asarray(privopt.run_many([plan], where, keys).released[0])
            bound = plan.rate.upper if plan.rate.quantity == "empirical risk" else math.inf
            found[method, epsilon] = (
                bound if math.isfinite(bound) else None,
                accuracy(name, points),
                where.excess_risk(points),
            )
        jax.clear_caches()
    return found


def recorded(name):
    """What was recorded of the peers, if anything."""
    return json.loads(PEERS.read_text())["sets"].get(name, []) if PEERS.exists() else []


def published(name):
    """``{(method, epsilon): (accuracies, excess risks or None)}`` of the peers."""
    found, least = {}, problem(name).reference.value
    for each in recorded(name):
        risks = None if None in each["risk"] else np.array(each["risk"]) - least
        found[each["method"], each["epsilon"]] = each["accuracy"], risks
    return found


def along(name):
    """One row an epsilon: accuracy and excess risk of every method, and of none."""
    where, data, ours = problem(name), split(name), runs(name)
    rows = {epsilon: {"label": f"ε = {epsilon:g}", "epsilon": epsilon} for epsilon in EPSILONS}
    every = {key: found[1:] for key, found in ours.items()} | published(name)
    for (method, epsilon), (accuracies, risks) in every.items():
        rows[epsilon] |= summary(method, accuracies)
        rows[epsilon] |= {} if risks is None else summary(f"{method}_risk", risks)
    best = where.reference.minimiser
    free, zero = float(accuracy(name, best[None])[0]), where.excess_risk(np.zeros_like(best))
    shares = [
        rows[epsilon][f"{method}_risk_within"].upper / bound
        for (method, epsilon), (bound, *_) in ours.items()
        if bound is not None and bound < zero  # elsewhere it could not fail
    ]
    last = rows[EPSILONS[-1]]
    untuned = [method for method in methods_of(name) if method != "tuned"]
    end = min(untuned, key=lambda method: last[f"{method}_risk"])  # chosen by other records
    common = {
        "free": free,
        "nearly": free - 0.01,
        "majority": float(np.unique(data.answers, return_counts=True)[1].max() / len(data.answers)),
        "zero_risk": zero,
        "most_of_bound": max(shares, default=None),
        "whole": 1.0,
        "end_within": last[f"{end}_within"],
    }
    return [row | common for row in rows.values()]


SHOWN = {
    "objective": ("objective perturbation", "blue", "line"),
    "amp": ("approximate minima", "orange", "dots"),
    "output": ("output perturbation", "orange", "line"),
    "pure": ("objective, pure", "green", "line"),
    "peer": ("diffprivlib, pure, C = 1", "purple", "dashes"),
    "peer_twin": ("diffprivlib, pure, λ of privopt", "purple", "dots"),
    "dp_gd": ("DP-GD", "blue", "dashes"),
    "dp_sgd": ("DP-SGD", "orange", "dashes"),
    "noisy_adam": ("NoisyAdam", "purple", "line"),
    "dp_ftrl": ("DP-FTRL, one pass", "green", "dashes"),
    "tuned": ("DP-SGD, tuned step size", "orange", "line"),
    "peer_sgd": ("jax-privacy, same numbers", "blue", "dots"),
}
PANELS = {
    "solved once, nothing tuned": ("peer", "peer_twin", *ONCE),
    "step by step, nothing tuned": DEFAULTS,
    "200 steps, oracle-tuned step size": ("tuned", "peer_sgd"),
}
REFERENCES = {
    "": (Line("free", "no privacy", "grey"), Line("majority", "largest class", "grey", "dashes")),
    "_risk": (Line("zero_risk", "zero predictor", "grey", "dots"),),
}


def panel(name, methods, suffix="", title=""):
    """Some methods of one data set: accuracy, or with the suffix excess risk."""
    return Panel(
        part=name,
        x="epsilon",
        x_label="ε",
        y_label="excess empirical risk" if suffix else "accuracy, held out",
        title=title,
        log="xy" if suffix else "x",
        lines=REFERENCES[suffix]
        + tuple(
            Line(f"{method}{suffix}", *SHOWN[method], band=f"{method}{suffix}_within")
            for method in methods
        ),
    )


def shown_of(name):
    """The methods of privopt, and of the peers that are recorded."""
    return {*methods_of(name), *(each["method"] for each in recorded(name))}


def figures(names):
    """Accuracy and risk: solved once, step by step, and at numbers that no budget pays for."""
    for name in names:
        title = f"{name}, {SETS[name].rule}: (ε, 1e-6)-DP under replace-one"
        riskless = {each["method"] for each in recorded(name) if None in each["risk"]}
        for what, suffix, hidden in (("accuracy", "", set()), ("risk", "_risk", riskless)):
            drawn = shown_of(name) - hidden
            yield Plot(
                f"{name}_{what}",
                title,
                *(
                    panel(name, [each for each in methods if each in drawn], suffix, told)
                    for told, methods in PANELS.items()
                    if drawn & {*methods}
                ),
            )


def listings(names):
    """The mean accuracies on each data set."""
    for name in names:
        yield Listing(
            name,
            f"{name}: mean accuracy on held out records",
            Column("ε", "{epsilon:g}"),
            *(Column(SHOWN[key][0], f"{{{key}:.3f}}") for key in SHOWN if key in shown_of(name)),
            Column("no privacy", "{free:.3f}"),
            Column("largest class", "{majority:.3f}"),
        )


def claims_of(names):
    """What is claimed of each data set."""
    for name in names:
        yield Claim(
            f"{name}: no mean risk is above its theorem's bound", name, "most_of_bound <= whole"
        )
        yield Claim(
            f"{name}: of least training risk, an untuned method beats the largest class at ε = 10",
            name,
            "majority < end_within",
        )


def shown(is_of, *claims):
    """The parts of a study, one a data set that is there, with its claims and how it shows."""
    chosen = {name: each for name, each in SETS.items() if is_of(each)}
    names = [name for name in chosen if name in THERE]
    return {
        "profiles": ("full",),
        "uses": tuple(filter(None, (name for x in chosen.values() for name in (x.data, x.test)))),
        "parts": {name: (lambda profile, name=name: along(name)) for name in names},
        "claims": (*claims_of(names), *(each for each in claims if each.part in names)),
        "plots": tuple(figures(names)),
        "listings": tuple(listings(names)),
    }


CENSUS = (
    Claim(
        "on the census noise inside the objective leaves less risk than noise on its minimiser",
        "a9a",
        "objective_risk_within < output_risk_within",
    ),
    Claim(
        "on the census objective perturbation is within 1 % of the optimum's accuracy in 4 of 5 ε",
        "a9a",
        "nearly <= objective_within",
        rows=4,
    ),
)
COMMON = (
    "Accuracy on records held out, and excess empirical risk, along ε. All of privopt's methods "
    "are (ε, 1e-6)-differentially private under replace-one; the one called pure is (ε, 0). "
    "Theory-set means default numbers, of which nothing is tuned. Oracle-tuned means 200 "
    "steps of the best step size of 1/4, 1, 4, 16 and 64 by 3 pilot runs on the records "
    "themselves, which no budget pays for; batches hold 512 records, or a quarter of all. Where ε "
    "is large, 200 steps are too few, and the default's thousand do better. There is no intercept. "
    "What bounds a record is public: each picture says by which rule of one row it is scaled, √14 "
    "being the root of the number of attributes. Approximate minima lie "
    "on objective perturbation where the two agree. Lines are means over runs, bands their 95 % "
    "intervals on one public split: they tell of the noise, not of the luck of the records. Plans "
    "that ask for more than 1,000 steps are held to 1,000, DP-GD to 500, to bound the cost. "
    "NoisyAdam has no bound and DP-FTRL one of population risk, so neither is checked; others are "
    "where their bound is below the risk of the zero predictor, as elsewhere it could not fail. "
    "No privacy means the optimum over the same ball.\n\n"
)
logistic = Study(
    name="real_accuracy",
    title="On real data privacy costs much accuracy where records are few, and little elsewhere",
    description=COMMON
    + "Logistic regression over the ball of radius 10: 10 runs a point on breast_cancer and a9a, 5 "
    "on the others; of kddcup99 20,000 records are learned from. diffprivlib's is pure ε-DP by "
    "objective perturbation. Its code draws the noise of Chaudhuri, Monteleoni and Sarwate (2011), "
    "whose neighbours differ in one record: replace-one as well, so it is to be set beside the "
    "pure line. It is given the public bound on norms, and stands at its default C = 1 and at "
    "privopt's λ. It is not held to the ball, so it may be more accurate than the optimum there; "
    "its risk is that of its projection. Its solver stops at gradients of 1e-4, for which it does "
    "not charge. Data that PRIVOPT_DATA does not hold are left out.\n\n"
    "jax-privacy has no numbers of its own to start from. It runs DP-SGD as its documentation "
    "writes it at the numbers of privopt's oracle-tuned plan, its noise too, which privopt charges "
    "under replace-one; its own accountant speaks of adding or removing a record. It is the same "
    "algorithm in other code, and should agree. Opacus is not measured: its PyTorch takes "
    "gigabytes.",
    **shown(lambda each: each.classes == 2, *CENSUS),
)

multinomial = Study(
    name="real_softmax_accuracy",
    title="Ten classes have ten times the parameters, and need more of epsilon",
    description=COMMON
    + "Softmax regression over the ball of radius 10, for MNIST 30, in the Frobenius norm. Of "
    "MNIST there are 5 runs a point, of at most 500 steps, and only of methods that read batches; "
    "the others take long there. Objective perturbation is for losses of one linear score. "
    "diffprivlib, on the small digits, fits ten classes one against the rest, each at a tenth of "
    "ε, pure, under replace-one, at its default C = 1.",
    **shown(lambda each: each.classes > 2),
)
