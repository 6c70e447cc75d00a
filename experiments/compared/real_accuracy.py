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

EPSILONS, DELTA, RELATION = (0.1, 0.3, 1.0, 3.0, 10.0), 1e-6, "replace_one"
RADII = {"mnist": 30.0}  # of the balls; of the others 10
RUNS = {"mnist": 5}  # of the others 10
RULES = {
    "breast_cancer": "features over public bounds and √30",
    "a9a": "records over √14",
    "mushrooms": "records over √21",
    "digits": "pixels over 128",
    "mnist": "2 × 2 means over 255, cut to norm 1",
}
MOST_STEPS = {"dp_gd": 500, "mnist": 500}  # of the others 1,000
PEERS = Path(__file__).parents[2] / "results" / "performance" / "real_accuracy.json"
FOLDER = os.environ.get("PRIVOPT_DATA", "")

BINARY = {
    "breast_cancer": (),
    "a9a": ("a9a/a9a.gz", "a9a/a9a.t.gz"),
    "mushrooms": ("mushrooms/mushrooms.gz",),
}
SOFTMAX = {
    "digits": (),
    "mnist": tuple(
        f"mnist/{part}-{kind}-ubyte.gz"
        for part in ("train", "t10k")
        for kind in ("images-idx3", "labels-idx1")
    ),
}


def present(files):
    """The names whose files are there, or that ship with scikit-learn."""
    return [
        name for name, paths in files.items() if all(Path(FOLDER, path).is_file() for path in paths)
    ]


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
        files = SOFTMAX[name]
        return Split(*handwritten(*files[:2]), *handwritten(*files[2:]), classes=10)
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


def handwritten(images, labels):
    """Images of 28 x 28 pixels from 0 to 255, by means of 2 x 2, each of norm at most 1."""
    pixels, answers = (
        np.frombuffer(gzip.decompress(Path(FOLDER, path).read_bytes()), np.uint8, offset=offset)
        for path, offset in ((images, 16), (labels, 8))
    )
    means = pixels.reshape(-1, 14, 2, 14, 2).mean((2, 4), dtype=np.float32)
    features = means.reshape(-1, 196) / np.float32(255.0)
    norms = np.linalg.norm(features, axis=1, keepdims=True)
    features /= (1.0 + 2.0**-20) * np.maximum(norms, 1.0)
    return features, answers.astype(np.float32)


@cache
def problem(name):
    """Logistic or softmax regression over the ball, declared by the rules of scaling."""
    data = split(name)
    n, columns = data.features.shape
    declared = partial(privopt.ProblemClass, n=n, radius=RADII.get(name, 10.0))
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
        return np.mean((data.answers > 0.0) == (data.held_out @ points.T > 0.0).T, axis=1)
    guesses = [np.argmax(data.held_out @ point.T, axis=1) for point in points]
    return np.mean(np.array(guesses) == data.answers, axis=1)


ONCE = {
    "objective": "objective_perturbation",
    "amp": "approximate_minima_perturbation",
    "output": "output_perturbation",
    "pure": "objective_perturbation",
}
STEPS = {"dp_gd": "dp_gd", "dp_sgd": "dp_sgd", "noisy_adam": "noisy_adam", "dp_ftrl": "dp_ftrl"}


def methods_of(name):
    """Objective perturbation is for losses of one score; on MNIST all but batches takes long."""
    if name == "mnist":
        return {method: STEPS[method] for method in ("dp_sgd", "noisy_adam", "dp_ftrl")}
    return ONCE | STEPS if name in BINARY else {"output": ONCE["output"]} | STEPS


def plan_of(name, method, algorithm, epsilon):
    """Default numbers, held to so many steps."""
    budget = privopt.Budget(
        epsilon=epsilon, delta=0.0 if method == "pure" else DELTA, relation=RELATION
    )
    told = partial(privopt.ALGORITHMS[algorithm].plan, problem(name).problem_class, budget)
    plan, most = told(), MOST_STEPS.get(name, MOST_STEPS.get(method, 1000))
    steps = getattr(plan.params.mechanism, "steps", 0)
    return told(steps=most) if method != "dp_ftrl" and steps > most else plan


def summary(quantity, values):
    """Mean, and its 95 % interval by Student's law."""
    mean, count = float(np.mean(values)), len(values)
    half = student.ppf(0.975, count - 1) * float(np.std(values, ddof=1)) / math.sqrt(count)
    return {quantity: mean, f"{quantity}_within": privopt.Interval(mean - half, mean + half)}


@cache
def runs(name):
    """``{(method, epsilon): (bound or None, accuracies, excess risks)}``."""
    where, found = problem(name), {}
    for method, algorithm in methods_of(name).items():
        for epsilon in EPSILONS:
            plan = plan_of(name, method, algorithm, epsilon)
            key = stream(0, role="noise", method=method, problem=name, epsilon=epsilon)
            keys = replicate_keys(key, RUNS.get(name, 10))
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
    """``{(method, epsilon): record}`` of diffprivlib, empty where none was made."""
    made = json.loads(PEERS.read_text())["sets"].get(name, []) if PEERS.exists() else []
    methods = {"C = 1": "peer", "C of privopt": "peer_twin"}
    return {(methods[each["setting"]], each["epsilon"]): each for each in made}


def peers_of(name):
    """Which settings of diffprivlib are recorded."""
    return list(dict.fromkeys(method for method, _ in recorded(name)))


def published(name):
    """``{(method, epsilon): (accuracies, excess risks or None)}`` of diffprivlib."""
    least = problem(name).reference.value
    return {
        key: (each["accuracy"], None if None in each["risk"] else np.array(each["risk"]) - least)
        for key, each in recorded(name).items()
    }


@cache
def along(name):
    """One row an epsilon: accuracy and excess risk of every method, and of none."""
    where, data = problem(name), split(name)
    best = where.reference.minimiser
    free = float(accuracy(name, best[None])[0])
    common = {
        "free": free,
        "nearly": free - 0.01,
        "majority": float(np.unique(data.answers, return_counts=True)[1].max() / len(data.answers)),
        "zero_risk": where.excess_risk(np.zeros_like(best)),
    }
    rows = {epsilon: {"label": f"ε = {epsilon:g}", "epsilon": epsilon} for epsilon in EPSILONS}
    every = {key: found[1:] for key, found in runs(name).items()} | published(name)
    for (method, epsilon), (accuracies, risks) in every.items():
        rows[epsilon] |= summary(method, accuracies)
        rows[epsilon] |= {} if risks is None else summary(f"{method}_risk", risks)
    return [row | common for row in rows.values()]


def bounds(names):
    """Every method whose theorem bounds its risk below that of the zero predictor."""
    for name in names:
        for (method, epsilon), (bound, *_) in runs(name).items():
            row = along(name)[EPSILONS.index(epsilon)]
            if bound is not None and bound < row["zero_risk"]:
                label = f"{SHOWN[method][0]}, {name}, ε = {epsilon:g}"
                yield {"label": label, "risk": row[f"{method}_risk_within"], "bound": bound}


def ends(names):
    """The most accurate method at the largest epsilon."""
    for name in names:
        row = along(name)[-1]
        best = max(methods_of(name), key=row.get)
        told = {key: row[key] for key in ("free", "nearly", "majority")}
        yield {"label": name, "method": SHOWN[best][0], "accuracy": row[f"{best}_within"], **told}


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
}
GUARANTEE = "(ε, 1e-6)-DP under replace-one, nothing tuned"
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


def figures(names):
    """Two for two classes, solved once beside step by step; one for ten classes."""
    for name in names:
        peers, title = peers_of(name), f"{name}, {RULES[name]}: {GUARANTEE}"
        if name in SOFTMAX:
            shown = methods_of(name)
            yield Plot(name, title, panel(name, [*peers, *shown]), panel(name, shown, "_risk"))
            continue
        for what, suffix in (("accuracy", ""), ("risk", "_risk")):
            once = panel(name, [*peers, *ONCE], suffix, "solved once")
            steps = panel(name, STEPS, suffix, "step by step")
            yield Plot(f"{name}_{what}", title, once, steps)


def listings(names):
    """The best at the end, and for each data set the mean accuracies."""
    yield Listing(
        "ends",
        f"The most accurate of privopt's methods at ε = {EPSILONS[-1]:g}",
        Column("data", "{label}"),
        Column("method", "{method}"),
        Column("accuracy, 95 %", "{accuracy:.3f}", "majority < accuracy"),
        Column("no privacy", "{free:.3f}"),
        Column("largest class", "{majority:.3f}"),
    )
    for name in names:
        asked = {*methods_of(name), *peers_of(name)}
        yield Listing(
            name,
            f"{name}: mean accuracy on held out records",
            Column("ε", "{epsilon:g}"),
            *(Column(SHOWN[key][0], f"{{{key}:.3f}}") for key in SHOWN if key in asked),
            Column("no privacy", "{free:.3f}"),
            Column("largest class", "{majority:.3f}"),
        )


def parts(names):
    """One for each data set, and two over all."""
    own = {name: (lambda profile, name=name: along(name)) for name in names}
    return own | {"bounds": lambda profile: bounds(names), "ends": lambda profile: ends(names)}


CLAIMS = (
    Claim("no mean risk is above the bound of its theorem", "bounds", "risk <= bound"),
    Claim("the best method beats the largest class at ε = 10", "ends", "majority < accuracy"),
)
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
    "Accuracy on records held out, and excess empirical risk, along ε: default numbers, nothing "
    "tuned on the data, no intercept. All of privopt's methods are (ε, 1e-6)-differentially "
    "private under replace-one; the one called pure is (ε, 0). What bounds a record is public: "
    "each picture says by which rule of one row it is scaled, √14 and √21 being the root of the "
    "number of attributes. Approximate minima lie on objective perturbation where the two agree. "
    "Lines are means over runs, bands their 95 % intervals on one public split: they tell of the "
    "noise, not of the luck of the records. Plans that ask for more than 1,000 steps are held to "
    "1,000, DP-GD to 500, to bound the cost. NoisyAdam has no bound and DP-FTRL one of population "
    "risk, so neither is checked; others are where their bound is below the risk of the zero "
    "predictor, as elsewhere it could not fail. No privacy means the optimum over the same ball. "
    "Opacus and jax-privacy, which have no numbers of their own to start from, are not "
    "measured.\n\n"
)
binary, softmax = present(BINARY), present(SOFTMAX)

logistic = Study(
    name="real_accuracy",
    profiles=("full",),
    title="On real data privacy costs much accuracy where records are few, and little elsewhere",
    description=COMMON
    + "Logistic regression over the ball of radius 10. Beside privopt stands diffprivlib's, pure "
    "ε-DP by objective perturbation. Its code draws the noise of Chaudhuri, Monteleoni and "
    "Sarwate (2011), whose neighbours differ in one record: replace-one as well, so it is to be "
    "set beside the pure line. It is given the public bound on norms, and stands at its default "
    "C = 1 and at privopt's λ. It is not held to the ball, so it may be more accurate than the "
    "optimum there; its risk is that of its projection. Its solver stops at gradients of 1e-4, "
    "for which it does not charge. Data that PRIVOPT_DATA does not hold are left out; without it "
    "the cells that ship with scikit-learn stay.",
    parts=parts(binary),
    claims=CLAIMS + (CENSUS if "a9a" in binary else ()),
    plots=tuple(figures(binary)),
    listings=tuple(listings(binary)),
)

multinomial = Study(
    name="real_softmax_accuracy",
    profiles=("full",),
    title="Ten classes have ten times the parameters, and need more of epsilon",
    description=COMMON
    + "Softmax regression over the ball of radius 10, for MNIST 30, in the Frobenius norm. Of "
    "MNIST there are 5 runs a point, of at most 500 steps, and only of methods that read batches; "
    "the others take long there. Objective perturbation is for losses of one linear score. "
    "diffprivlib, on the small digits, fits ten classes one against the rest, each at a tenth of "
    "ε, pure, under replace-one, at its default C = 1. MNIST is left out where PRIVOPT_DATA does "
    "not hold it.",
    parts=parts(softmax),
    claims=CLAIMS,
    plots=tuple(figures(softmax)),
    listings=tuple(listings(softmax)),
)
