"""Accuracy and excess risk on real data against epsilon, with other libraries at one guarantee.

The other libraries need separate environments: ``benchmarks/real_accuracy.py`` runs them on the
records of :func:`split` and writes ``results/performance/real_accuracy.json``, which is read here.
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
from privopt.lab import (
    Analysis,
    Chart,
    Claim,
    Listing,
    at_most,
    below,
    plotting,
    replicate_keys,
    stream,
)

EPSILONS = (0.1, 0.2, 0.3, 0.5, 1.0, 2.0, 3.0, 5.0, 8.0, 10.0)
DELTA, RELATION = 1e-6, "replace_one"
PRINTED = {"amp": 0.793, "output": 0.774, "dp_gd": 0.809, "dp_sgd": 0.804}  # Yu et al. 2020
OUTPUT_RUNS = 8  # times as many: large noise makes the risks skew
PUBLISHED_RUNS = 100  # fewer leave it open whether a mean exceeds a printed accuracy
PEERS = Path(__file__).parents[2] / "results" / "performance" / "real_accuracy.json"


class Records(NamedTuple):
    """A real data set, its scaling in words, and the size of its experiment."""

    data: str
    rule: str
    test: str = ""  # published test part; without one, a fifth of the public order is held out
    first: int | None = None  # number of training records; default all
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


class Split(NamedTuple):
    """Training and held-out records; labels are -1 and 1, or numbers of classes."""

    features: np.ndarray
    labels: np.ndarray
    held_out: np.ndarray
    answers: np.ndarray


@cache
def split(name):
    """Return the training records, and the published test part or a fifth of the public order."""
    records = SETS[name]
    data = problems.DATASETS[records.data]()
    size = len(data.labels)
    data = data.subset(size)
    size = records.first or size if records.test else size * 4 // 5
    test = problems.DATASETS[records.test]() if records.test else data
    first = 0 if records.test else size
    labels, answers = (d.labels if records.classes == 2 else d.classes for d in (data, test))
    return Split(data.features[:size], labels[:size], test.features[first:], answers[first:])


@cache
def problem(name):
    """Return logistic or softmax regression over the ball, with constants from the scaling."""
    data, records = split(name), SETS[name]
    n, dim = data.features.shape
    problem_class = partial(privopt.ProblemClass, n=n, radius=records.radius)
    if records.classes == 2:
        problem_class = problem_class(dim=dim, lipschitz=1.0, smoothness=0.25)
        return problems.logistic(data.features, data.labels, problem_class=problem_class, name=name)
    classes = range(records.classes)
    problem_class = problem_class(dim=dim * len(classes), lipschitz=math.sqrt(2.0), smoothness=0.5)
    return problems.multinomial(
        data.features, data.labels, classes=classes, problem_class=problem_class, name=name
    )


def accuracy(name, points):
    """Return the share of correctly classified held-out records for each point."""
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
BATCH, PILOTS = 512, 3
GRID = [(steps, 4.0**k) for steps in (50, 200, 800) for k in range(-2, 4)]  # steps and step size


def methods_of(name):
    """Return the methods: objective perturbation requires one score, MNIST batches."""
    if name == "mnist":
        return {method: STEPS[method] for method in STEPS if method != "dp_gd"}
    return ONCE | STEPS if SETS[name].classes == 2 else {"output": ONCE["output"]} | STEPS


def is_unprojected(name, method):
    """Return True for output perturbation of one linear prediction, which is not projected."""
    return method == "output" and SETS[name].classes == 2


def planner(name, method, epsilon, delta=DELTA):
    """Return the ``plan`` function of a method for the class of the problem and the budget."""
    delta = 0.0 if method == "pure" else delta
    budget = privopt.Budget(epsilon=epsilon, delta=delta, relation=RELATION)
    algorithm = privopt.ALGORITHMS[methods_of(name)[method]]
    choices = {"constraint": "none"} if is_unprojected(name, method) else {}
    return partial(algorithm.plan, problem(name).problem_class, budget, **choices)


def plan_of(name, method, epsilon, delta=DELTA):
    """Return the default plan with a limit on its steps, or the oracle-tuned one."""
    if method == "tuned":
        return oracle_tuned(name)[epsilon]
    planned = planner(name, method, epsilon, delta)
    plan, most = planned(), 500 if method == "dp_gd" else SETS[name].most_steps
    steps = getattr(plan.params.mechanism, "steps", 0)
    return planned(steps=most) if method != "dp_ftrl" and steps > most else plan


@cache
def oracle_tuned(name):
    """Return for each epsilon the plan with the best entry of ``GRID`` in pilot runs."""
    data, keys = problem(name), replicate_keys(stream(0, role="pilot", problem=name), PILOTS)
    batch, best = min(BATCH, data.problem_class.n // 4), {}
    for epsilon in EPSILONS:
        planned = partial(planner(name, "tuned", epsilon), output="average", batch_size=batch)
        plans = [planned(steps=steps, step_size=size) for steps, size in GRID]
        risks = data.excess_risk(np.asarray(privopt.run_many(plans, data, keys).released))
        best[epsilon] = plans[risks.mean(axis=1).argmin()]
    return best


def summary(quantity, values):
    """Return the mean with its 95 % interval by Student's t distribution, as columns.

    A point outside of the ball may have a negative excess risk. Its mean and interval end at 0.
    """
    mean, count = float(np.mean(values)), len(values)
    half = student.ppf(0.975, count - 1) * float(np.std(values, ddof=1)) / math.sqrt(count)
    lower, mean, upper = (max(0.0, value) for value in (mean - half, mean, mean + half))
    return {quantity: mean, f"{quantity}_within": privopt.Interval(lower, upper)}


def released(name, method, epsilon, delta=DELTA, runs=None, role="noise"):
    """Return the plan of a method and its released points."""
    plan = plan_of(name, method, epsilon, delta)
    key = stream(0, role=role, method=method, problem=name, epsilon=epsilon)
    keys = replicate_keys(key, runs or SETS[name].runs)
    return plan, np.asarray(privopt.run_many([plan], problem(name), keys).released[0])


def runs(name):
    """Return ``{(method, epsilon): (bound or None, accuracies, excess risks)}``."""
    data, results = problem(name), {}
    for method in methods_of(name):
        for epsilon in EPSILONS:
            count = SETS[name].runs * (OUTPUT_RUNS if is_unprojected(name, method) else 1)
            plan, points = released(name, method, epsilon, runs=count)
            bound = plan.rate.upper if plan.rate.quantity == "empirical risk" else math.inf
            bound = bound if math.isfinite(bound) else None
            results[method, epsilon] = bound, accuracy(name, points), data.excess_risk(points)
        jax.clear_caches()
    return results


def peer_runs(name):
    """Return the recorded runs of other libraries, if any."""
    return json.loads(PEERS.read_text())["sets"].get(name, []) if PEERS.exists() else []


def along(name, profile):
    """Return a row for each epsilon, with the accuracies and the excess risks of all methods."""
    del profile
    data, ours = problem(name), runs(name)
    results = {key: values[1:] for key, values in ours.items()}
    for peer in peer_runs(name):
        risks = None if None in peer["risk"] else np.array(peer["risk"]) - data.reference.value
        results[peer["method"], peer["epsilon"]] = peer["accuracy"], risks
    rows = {epsilon: {"label": f"ε = {epsilon:g}", "epsilon": epsilon} for epsilon in EPSILONS}
    for (method, epsilon), (accuracies, risks) in results.items():
        rows[epsilon] |= summary(method, accuracies)
        rows[epsilon] |= {} if risks is None else summary(f"{method}_risk", risks)
    best = data.reference.minimiser
    free, zero = float(accuracy(name, best[None])[0]), data.excess_risk(np.zeros_like(best))
    shares = [
        privopt.Interval(*(end / bound for end in rows[epsilon][f"{method}_risk_within"]))
        for (method, epsilon), (bound, *_) in ours.items()
        if bound is not None and bound < zero  # a larger bound is vacuous
    ]
    largest = max(shares, key=lambda share: share.upper, default=None)
    last, (_, counts) = rows[EPSILONS[-1]], np.unique(split(name).answers, return_counts=True)
    untuned = [method for method in methods_of(name) if method != "tuned"]
    end = min(untuned, key=lambda method: last[f"{method}_risk"])  # uses only training records
    common = {
        "n": data.problem_class.n, "free": free, "nearly": free - 0.01,
        "majority": float(counts.max() / counts.sum()),
        "zero_risk": zero, "most_of_bound": largest, "whole": 1.0,
        "end_within": last[f"{end}_within"],
    }  # fmt: skip
    return [row | common for row in rows.values()]


def published(profile):
    """Return a row for each method with a printed accuracy on a9a, with its untuned accuracy."""
    del profile
    delta = problem("a9a").problem_class.n ** -2.0
    rows = []
    for method, printed in PRINTED.items():
        _, points = released("a9a", method, 0.1, delta, PUBLISHED_RUNS, "published")
        row = {"label": STYLES[method]["label"], "method": method, "printed": printed}
        rows.append(row | summary("ours", accuracy("a9a", points)))
    return rows


def style(label, color, ls="-"):
    """Return the style of a line."""
    return {"label": label, "color": color, "ls": ls}


STYLES = {method: plotting.method_style(name) for method, name in (ONCE | STEPS).items()}
STYLES["tuned"] |= {"label": "DP-SGD, constant, tuned", "ls": "--"}
STYLES |= {
    "pure": style("objective perturbation, pure", plotting.PURPLE, "-."),
    "peer": style("diffprivlib, pure, C = 1", plotting.INK, ":"),
    "peer_twin": style("diffprivlib, pure, λ of privopt", plotting.INK),
    "peer_best": style("diffprivlib, pure, oracle-tuned C", plotting.INK, "--"),
    "peer_sgd": style("jax-privacy, the same", plotting.INK, "-."),
}
ONLY_LISTED = ("amp", "peer_twin")  # almost the curves of objective perturbation and its peer
REFERENCES = {
    "": {
        "free": style("no privacy", plotting.GREY),
        "majority": style("largest class", plotting.GREY, "--"),
    },
    "_risk": {"zero_risk": style("zero predictor", plotting.GREY, ":")},
}


def plate(names, suffix, quantity, yscale):
    """Return the function that draws a quantity against epsilon, with a panel for each data set."""

    def comparison(frames):
        """Means over the runs on one split of the data, with their 95 % intervals.

        Methods are (ε, 1e-6)-DP under replace-one, or (ε, 0)-DP if they are called pure, and have
        default hyperparameters unless they are called tuned.
        """
        recorded = [name for name in names if name in frames]
        headings = [f"{name}, n = {frames[name]['n'][0]:,}" for name in recorded]
        title = f"Private linear classification on real data: {quantity} against ε"
        figure, panels = plotting.panels(title, *headings)
        for name, axes in zip(recorded, panels, strict=True):
            frame = frames[name]
            axes.set(xlabel="ε", ylabel=quantity, xscale="log", yscale=yscale)
            for column, look in REFERENCES[suffix].items():
                plotting.curve(axes, frame, "epsilon", column, **look)
            for method, look in STYLES.items():
                column = f"{method}{suffix}"
                if column in frame and frame[column].notna().any() and method not in ONLY_LISTED:
                    plotting.curve(axes, frame, "epsilon", column, band=f"{column}_within", **look)
        return figure

    return comparison


def listing(name):
    """Return the table of the mean accuracies on a data set."""
    recorded = {*methods_of(name), *(peer["method"] for peer in peer_runs(name))}
    columns = {STYLES[key]["label"]: f"{{{key}:.3f}}" for key in STYLES if key in recorded}
    return Listing(
        name,
        f"{name} ({SETS[name].rule}): mean accuracy on held-out records",
        {"ε": "{epsilon:g}", **columns, "no privacy": "{free:.3f}"},
    )


CLAIMS = {
    "no mean risk exceeds the bound of its theorem": at_most("most_of_bound", "whole"),
    "the default with the least training risk exceeds the largest class at ε = 10": below(
        "majority", "end_within"
    ),
}


def nearly_optimal(frame):
    """Return the mask of claims on the accuracy of objective perturbation at ε of at least 0.3."""
    return at_most("nearly", "objective_within")(frame) | (frame["epsilon"] < 0.3)


CENSUS = (
    Claim("a9a: objective perturbation has a smaller risk than output perturbation", "a9a",
          below("objective_risk_within", "output_risk_within")),
    Claim("a9a: objective perturbation has the accuracy of the optimum up to 1 % at ε ≥ 0.3", "a9a",
          nearly_optimal),
    Claim("a9a, ε = 0.1: two of four untuned methods exceed the published, tuned accuracy",
          "published", below("printed", "ours_within"), rows=2),
)  # fmt: skip
PUBLISHED = Listing(
    "published",
    "a9a at ε = 0.1: untuned methods beside published, tuned results",
    {"method": "{label}", "privopt, untuned": "{ours:.3f}",
     "95 % interval": "{ours_within:.3f}", "published, tuned": "{printed:.3f}"},
)  # fmt: skip
QUANTITIES = {
    "accuracy": ("", "held-out accuracy", "linear"),
    "risk": ("_risk", "excess empirical risk", "log"),
}


def analysis(names, parts=(), claims=(), listings=(), **texts):
    """Return the analysis of the data sets ``names``, with further parts on a9a."""
    pairs = [(name, sentence) for name in names for sentence in CLAIMS]
    common = [Claim(f"{name}: {each}", name, CLAIMS[each]) for name, each in pairs]
    charts = (
        Chart(name, name, "epsilon", "excess empirical risk", "risk", "risk_within")
        for name in names
    )
    data = {name: tuple(filter(None, (SETS[name].data, SETS[name].test))) for name in names}
    return Analysis(
        **texts,
        profiles=("full",),
        uses=tuple(each for sets in data.values() for each in sets),
        part_data=data | dict.fromkeys(parts, data.get("a9a")),
        parts={name: partial(along, name) for name in names} | dict(parts),
        claims=(*common, *claims),
        figures={key: plate(names, *values) for key, values in QUANTITIES.items()},
        listings=(*map(listing, names), *listings),
        charts=tuple(charts),
    )


COMMON = (
    "Methods are (ε, 1e-6)-DP under replace-one; those called pure are (ε, 0)-DP. Defaults are "
    "the hyperparameters of the theorems, with at most 1,000 steps (DP-GD 500). Oracle-tuned "
    "DP-SGD has the best of 18 pairs of step size and steps, 50, 200 or 800, in 3 pilot runs on "
    "the training records, outside of the budget, with constant steps and the average iterate; "
    "from ε = 1 on the default, with falling steps and the last iterate, often has a smaller "
    "risk. Batches have 512 records, or a quarter of all. Captions of tables give the public "
    "scaling of the records; 14 is the number of attributes of a9a. Intervals are over the noise "
    "of the runs on one split. Bounds are checked where they are below the risk of zero; "
    "NoisyAdam and DP-FTRL have none. No privacy is the optimum over the same ball, without an "
    "intercept.\n\n"
)
logistic = analysis(
    [name for name, each in SETS.items() if each.classes == 2],
    {"published": published},
    CENSUS,
    (PUBLISHED,),
    name="real_accuracy",
    title="Private logistic regression on real data: accuracy and excess risk against ε",
    description=COMMON
    + "Output perturbation does not project its point, as its bound for linear predictions allows; "
    "it has eight times as many runs, and an excess risk below that of the optimum on the ball "
    "counts as 0. "
    "Logistic regression over the ball of radius 10: 10 runs on breast_cancer and a9a, 5 on the "
    "other data sets; kddcup99 has 20,000 training records. Privacy costs much accuracy on "
    "breast_cancer, which has few records, and little on the others. diffprivlib is pure ε-DP by "
    "objective perturbation for replace-one (Chaudhuri, Monteleoni and Sarwate 2011), with the "
    "public bound on the norms and C = 1 (its default), the λ of privopt, or the best of 0.001 to "
    "10 in the same runs. It has no constraint set, so its accuracy may exceed that of the "
    "optimum; its risk is that of the projection. Its solver stops at gradients of 1e-4, which "
    "its guarantee ignores. jax-privacy runs DP-SGD as in its documentation with privopt's "
    "oracle-tuned hyperparameters and noise, and should agree. The published results on a9a are "
    "tuned and (0.1, 1/n²)-DP (Yu et al. 2020, arXiv:1911.11363, table 2), on a random split of "
    "the records; beside them are 100 runs. Data sets outside of PRIVOPT_DATA are left out.",
)
multinomial = analysis(
    [name for name, each in SETS.items() if each.classes > 2],
    name="real_softmax_accuracy",
    title="Private softmax regression on digits and MNIST: accuracy and excess risk against ε",
    description=COMMON
    + "Softmax regression over the ball of radius 10 (MNIST 30) in the Frobenius norm. MNIST has 5 "
    "runs of at most 500 steps, and only methods with batches. Ten classes have ten times as many "
    "parameters as one score, and need a larger ε. Objective perturbation requires losses of one "
    "linear score. diffprivlib, on digits, fits ten one-against-rest classifiers, each pure "
    "(ε/10)-DP under replace-one, with C = 1 or the best of 0.001 to 10 in the same runs.",
)
