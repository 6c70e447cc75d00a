"""Accuracy and excess risk on real data along epsilon, beside diffprivlib at the same guarantee.

The peer has an environment of its own: ``benchmarks/real_accuracy.py`` runs it on the records of
`split` and writes its numbers to ``results/performance/real_accuracy.json``, which is read here.
"""

import gzip
import json
import math
import os
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np
from scipy.stats import t as student
from sklearn.datasets import load_digits, load_svmlight_file

import privopt
from privopt import problems
from privopt.lab import Claim, Column, Line, Listing, Panel, Plot, Study, replicate_keys, stream

EPSILONS, DELTA, RELATION, RADIUS = (0.1, 0.3, 1.0, 3.0, 10.0), 1e-6, "replace_one", 10.0
RUNS = {"mnist": 3}  # of the others 10
MOST_STEPS = {"dp_gd": 500, "mnist": 100}  # of the others 1,000
PEERS = Path(__file__).parents[2] / "results" / "performance" / "real_accuracy.json"
FOLDER = os.environ.get("PRIVOPT_DATA", "")

BINARY = {"breast_cancer": "", "a9a": "a9a/a9a.gz", "w8a": "w8a/w8a.gz"}
BINARY["mushrooms"] = "mushrooms/mushrooms.gz"
SOFTMAX = {"digits": "", "mnist": "mnist/train-images-idx3-ubyte.gz"}


def present(files):
    """The names whose file is there, or that ship with scikit-learn."""
    return [name for name, file in files.items() if not file or Path(FOLDER, file).is_file()]


NAMES = [*present(BINARY), *present(SOFTMAX)]


class Split(NamedTuple):
    """Records to learn from, and held out ones; labels are -1 and 1, or numbers of classes."""

    features: np.ndarray
    labels: np.ndarray
    held_out: np.ndarray
    answers: np.ndarray
    classes: int = 2


@cache
def split(name):
    """The published test part, or a fifth of a public order, is held out."""
    if name == "mnist":
        parts = [digits_by_hand(f"mnist/{part}") for part in ("train", "t10k")]
        return Split(*parts[0], *parts[1], classes=10)
    if name == "digits":
        features, labels = problems.DATASETS[name]().features, load_digits().target
        order = np.argsort(np.random.PCG64(0).random_raw(len(labels)), kind="stable")
        features, labels = features[order], labels[order].astype(float)
    else:
        whole = problems.DATASETS[name]()
        whole = whole.subset(len(whole.labels))
        features, labels = whole.features, whole.labels
    if name == "a9a":  # of which signs of scores are asked, so the scale is left out
        held_out, answers = load_svmlight_file(str(Path(FOLDER, "a9a/a9a.t.gz")), n_features=123)
        return Split(features, labels, held_out.toarray(), answers)
    kept = len(labels) * 4 // 5
    classes = 10 if name == "digits" else 2
    return Split(features[:kept], labels[:kept], features[kept:], labels[kept:], classes)


def digits_by_hand(prefix):
    """Images of 28 x 28 pixels from 0 to 255, by means of 2 x 2, each of norm at most 1."""
    pixels, labels = (
        gzip.decompress(Path(FOLDER, f"{prefix}-{kind}-ubyte.gz").read_bytes())
        for kind in ("images-idx3", "labels-idx1")
    )
    images = np.frombuffer(pixels, np.uint8, offset=16).reshape(-1, 14, 2, 14, 2)
    features = images.mean((2, 4), dtype=np.float32).reshape(-1, 196) / np.float32(255.0)
    norms = np.linalg.norm(features, axis=1, keepdims=True)
    features /= (1.0 + 2.0**-20) * np.maximum(norms, 1.0)
    return features, np.frombuffer(labels, np.uint8, offset=8).astype(np.float32)


@cache
def problem(name):
    """Logistic or softmax regression over the ball, declared by the rules of scaling."""
    data = split(name)
    n, columns = data.features.shape
    declared = partial(privopt.ProblemClass, n=n, radius=RADIUS)
    if data.classes == 2:
        facts = declared(dim=columns, lipschitz=1.0, smoothness=0.25)
        return problems.logistic(data.features, data.labels, problem_class=facts, name=name)
    facts = declared(dim=columns * data.classes, lipschitz=math.sqrt(2.0), smoothness=0.5)
    return problems.multinomial(
        data.features, data.labels, classes=range(data.classes), problem_class=facts, name=name
    )


def accuracy(name, points):
    """Share of the held out records, one number a point."""
    data = split(name)
    if data.classes == 2:
        return np.mean((data.held_out @ points.T > 0.0).T == (data.answers > 0.0), axis=1)
    guesses = [np.argmax(data.held_out @ point.T, axis=1) for point in points]
    return np.mean(np.array(guesses) == data.answers, axis=1)


ONCE = {
    "objective": "objective_perturbation",
    "amp": "approximate_minima_perturbation",
    "output": "output_perturbation",
    "pure": "objective_perturbation",
}
STEPS = {"dp_gd": "dp_gd", "dp_sgd": "dp_sgd", "noisy_adam": "noisy_adam", "dp_ftrl": "dp_ftrl"}
METHODS = {"binary": ONCE | STEPS, "softmax": {"output": ONCE["output"]} | STEPS}


def plan_of(name, method, algorithm, epsilon):
    """Default numbers, held to so many steps."""
    budget = privopt.Budget(
        epsilon=epsilon, delta=0.0 if method == "pure" else DELTA, relation=RELATION
    )
    told = partial(privopt.ALGORITHMS[algorithm].plan, problem(name).problem_class, budget)
    plan, most = told(), MOST_STEPS.get(name, MOST_STEPS.get(method, 1000))
    steps = getattr(plan.params.mechanism, "steps", 0)
    return told(steps=most) if method != "dp_ftrl" and steps > most else plan


def measured(values):
    """Mean, and its 95 % interval by Student's law."""
    values = np.asarray(values)
    mean, count = float(values.mean()), values.size
    half = student.ppf(0.975, count - 1) * float(values.std(ddof=1)) / math.sqrt(count)
    return mean, privopt.Interval(mean - half, mean + half)


@cache
def runs(name):
    """``{(method, epsilon): (bound or None, steps, accuracies, excess risks)}``."""
    where, found = problem(name), {}
    kind = "binary" if split(name).classes == 2 else "softmax"
    for method, algorithm in METHODS[kind].items():
        for epsilon in EPSILONS:
            plan = plan_of(name, method, algorithm, epsilon)
            key = stream(0, role="noise", method=method, problem=name, epsilon=epsilon)
            keys = replicate_keys(key, RUNS.get(name, 10))
            points = np.asarray(privopt.run_many([plan], where, keys).released[0])
            bound = plan.rate.upper if plan.rate.quantity == "empirical risk" else math.inf
            found[method, epsilon] = (
                bound if math.isfinite(bound) else None,
                getattr(plan.params.mechanism, "steps", None),
                accuracy(name, points),
                where.excess_risk(points),
            )
        jax.clear_caches()
    return found


def published(name):
    """``{(method, epsilon): (accuracies, excess risks or None)}`` of diffprivlib, if recorded."""
    recorded = json.loads(PEERS.read_text())["sets"].get(name, []) if PEERS.exists() else []
    found = {}
    for each in recorded:
        method = "peer" if each["setting"] == "C = 1" else "peer_twin"
        risks = None if None in each["risk"] else each["risk"] - problem(name).reference.value
        found[method, each["epsilon"]] = each["accuracy"], risks
    return found


def along(name):
    """A part: one row an epsilon, with the accuracy and the excess risk of every method."""

    def part(profile):
        del profile
        where, data = problem(name), split(name)
        shape = where.reference.minimiser.shape
        common = {
            "free": float(accuracy(name, where.reference.minimiser[None])[0]),
            "majority": float(np.unique(data.answers, return_counts=True)[1].max())
            / len(data.answers),
            "zero_risk": where.excess_risk(np.zeros(shape)),
        }
        every = {key: found[2:] for key, found in runs(name).items()} | published(name)
        for epsilon in EPSILONS:
            row = {"label": f"ε = {epsilon:g}", "epsilon": epsilon, **common}
            for method, (accuracies, risks) in (
                (key[0], found) for key, found in every.items() if key[1] == epsilon
            ):
                row[method], row[f"{method}_within"] = measured(accuracies)
                if risks is not None:
                    row[f"{method}_risk"], row[f"{method}_risk_within"] = measured(risks)
            yield row

    return part


def bounds(names):
    """A part: the excess risk of every run whose theorem bounds it below the zero predictor's."""

    def part(profile):
        del profile
        for name in names:
            zero = problem(name).excess_risk(np.zeros(problem(name).reference.minimiser.shape))
            for (method, epsilon), (bound, steps, _, risks) in runs(name).items():
                if bound is not None and bound < zero:
                    yield {
                        "label": f"{TITLES[method]}, {name}, ε = {epsilon:g}",
                        "steps": steps,
                        "risk": measured(risks)[1],
                        "bound": bound,
                        "zero": zero,
                    }

    return part


def ends(names):
    """A part: the best method at the largest epsilon beside the two that know no noise."""

    def part(profile):
        for name in names:
            row = list(along(name)(profile))[-1]
            methods = {method for method, _ in runs(name)}
            best = max(methods, key=row.get)
            yield {
                "label": name,
                "method": TITLES[best],
                "accuracy": row[f"{best}_within"],
                "free": row["free"],
                "nearly": row["free"] - 0.01,
                "majority": row["majority"],
            }

    return part


def inside_or_after(names):
    """A part: noise inside the objective and on its minimiser, excess risks at one budget."""

    def part(profile):
        for name in names:
            for row in along(name)(profile):
                inside, after = row["objective_risk_within"], row["output_risk_within"]
                label = f"{name}, {row['label']}"
                yield {"label": label, "inside": inside, "after": after}

    return part


TITLES = {
    "objective": "objective perturbation",
    "amp": "approximate minima",
    "output": "output perturbation",
    "pure": "objective, pure",
    "peer": "diffprivlib, pure, C = 1",
    "peer_twin": "diffprivlib, pure, λ of privopt",
    "dp_gd": "DP-GD",
    "dp_sgd": "DP-SGD",
    "noisy_adam": "NoisyAdam",
    "dp_ftrl": "DP-FTRL, one pass",
}
LOOKS = {
    "objective": ("blue", "line"),
    "amp": ("orange", "dots"),
    "output": ("orange", "line"),
    "pure": ("green", "line"),
    "peer": ("purple", "dashes"),
    "peer_twin": ("purple", "dots"),
    "dp_gd": ("blue", "dashes"),
    "dp_sgd": ("orange", "dashes"),
    "noisy_adam": ("purple", "line"),
    "dp_ftrl": ("green", "dashes"),
}
RULES = {
    "breast_cancer": "cells, a fixed public bound a feature, over the root of their number",
    "a9a": "census records, divided by the root of the number of attributes",
    "w8a": "web pages, each row clipped to norm 1",
    "mushrooms": "mushrooms, divided by the root of the number of attributes",
    "digits": "8 × 8 pixels from 0 to 16, divided by 128",
    "mnist": "28 × 28 pixels by means of 2 × 2, over 255, each image clipped to norm 1",
}


def panel(name, methods, title, suffix, y_label):
    """Some methods of one data set between the two that know no noise."""
    ends_of = (
        (Line("free", "no privacy", "grey"), Line("majority", "largest class", "grey", "dashes"))
        if not suffix
        else (Line("zero_risk", "zero predictor", "grey", "dots"),)
    )
    lines = (
        Line(f"{method}{suffix}", TITLES[method], *LOOKS[method], band=f"{method}{suffix}_within")
        for method in methods
    )
    return Panel(
        part=name, x="epsilon", x_label="ε", y_label=y_label, title=title,
        log="xy" if suffix else "x", lines=(*ends_of, *lines),
    )  # fmt: skip


def panels(name, suffix, y_label):
    """Solved once beside step by step; of several classes all in one."""
    shown = [method for method in TITLES if method not in ("peer", "peer_twin")]
    peers = {method for method, _ in published(name)}
    if name in SOFTMAX:
        chosen = [m for m in shown if m in METHODS["softmax"]] + ["peer"] * (
            "peer" in peers and not suffix
        )
        return (panel(name, chosen, "", suffix, y_label),)
    once = [method for method in TITLES if method in ONCE or method in peers]
    return (
        panel(name, once, "solved once", suffix, y_label),
        panel(name, STEPS, "step by step", suffix, y_label),
    )


def plots(names):
    """Of two classes a figure for accuracy and one for risk; of several classes one for both."""
    for name in names:
        both = (
            ("", "accuracy, held out"),
            ("_risk", "excess empirical risk"),
        )
        if name in SOFTMAX:
            found = (each for ask in both for each in panels(name, *ask))
            yield Plot(name, f"{name}: {RULES[name]}", *found)
        else:
            yield Plot(f"{name}_accuracy", f"{name}: {RULES[name]}", *panels(name, *both[0]))
            yield Plot(f"{name}_risk", f"{name}: {RULES[name]}", *panels(name, *both[1]))
