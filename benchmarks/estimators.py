"""Accuracy of private models with default arguments: privopt and diffprivlib.

    PRIVOPT_DATA=... .venv/bin/python benchmarks/estimators.py [breast_cancer] [a9a:svc] ...

Both libraries receive the same rows, the public bound on their norm, and an intercept. Regressions
receive the public bounds of the targets, and predictions are clipped to them. diffprivlib is pure
epsilon-DP, so privopt is run at ``delta = 0`` and at ``delta = 1e-6``, under ``replace_one``. The
regression of diffprivlib is the functional mechanism, which needs bounds of columns. No argument is
tuned for an epsilon or a data set. However, the default radii of privopt were chosen by accuracies
on these data sets. ``:svc`` and ``:median`` are models that diffprivlib does not have; they are
compared with the best constant. ``make performance`` installs diffprivlib. Data sets in the command
are measured again; the recorded scores of the others are kept.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
import pandas as pd
from sklearn.datasets import load_digits

import privopt
from privopt import estimators, problems
from privopt.estimators import Number, Table

ROOT = Path(__file__).parents[1]
PEER = Path(__file__).parent / "peers" / "diffprivlib_models.py"
PYTHON = ROOT / ".venv" / "diffprivlib" / "bin" / "python"
RESULTS = ROOT / "results" / "performance" / "estimators.json"
EPSILONS, DELTA = (0.1, 0.3, 1.0, 3.0, 10.0), 1e-6
RUNS = {"digits": 3, "a9a": 5}  # 10 runs for the other sets
MODELS = {
    "digits": "MultinomialRegression",
    "california": "LinearRegression",
    "california:median": "QuantileRegression",
} | {f"{name}:svc": "LinearSVC" for name in ("breast_cancer", "mushrooms", "a9a")}
NAMES = (
    "breast_cancer",
    "mushrooms",
    "a9a",
    "digits",
    *MODELS,
)  # the first three use logistic regression
HOUSING = Table(
    {
        "longitude": Number(-125, -114),
        "latitude": Number(32, 42),
        "housingMedianAge": Number(0, 60),
        "totalRooms": Number(1, 50_000, log=True),
        "totalBedrooms": Number(1, 10_000, log=True),
        "population": Number(1, 50_000, log=True),
        "households": Number(1, 10_000, log=True),
        "medianIncome": Number(0, 15),
    }
)


class Task(NamedTuple):
    """Training and held-out records of a data set, and its public classes or bounds."""

    features: np.ndarray
    answers: np.ndarray
    held_out: np.ndarray
    expected: np.ndarray
    norm: float
    model: type
    public: dict[str, Any]


def task(name: str) -> Task:
    """Return a data set; a fifth of a public order is held out."""
    source, model = name.partition(":")[0], getattr(estimators, model_name(name))
    if source == "california":
        file = Path(os.environ["PRIVOPT_DATA"], "cal_housing", "cal_housing.csv.gz")
        frame = pd.read_csv(file)
        features, answers = HOUSING.features(frame), frame["medianHouseValue"].to_numpy(float)
        public, norm = {"bounds_y": (0.0, 5e5)}, HOUSING.norm
    else:
        data, norm = problems.DATASETS[source](), 1.0
        features, answers, public = data.features, data.labels, {"classes": (-1, 1)}
    if source == "digits":
        answers, public = load_digits().target, {"classes": tuple(range(10))}
    order = np.argsort(np.random.PCG64(0).random_raw(len(answers)), kind="stable")
    features, answers, size = features[order], answers[order], len(answers) * 4 // 5
    rows = features[:size], answers[:size], features[size:], answers[size:]
    return Task(*rows, norm, model, public)


def model_name(name: str) -> str:
    """Return the name of the class in ``estimators``."""
    return MODELS.get(name, "LogisticRegression")


def ours(split: Task, epsilon: float, delta: float, runs: int) -> list[float]:
    """Return the scores of privopt by the default method, one per run."""
    budget = privopt.Budget(epsilon=epsilon, delta=delta, relation="replace_one")
    scores = []
    for key in jax.random.split(jax.random.key(0), runs):
        model = split.model(budget=budget, data_norm=split.norm, key=key, **split.public)
        scores.append(
            model.fit(split.features, split.answers).score(split.held_out, split.expected)
        )
    return scores


def theirs(python: str, split: Task, runs: int) -> list[list[float]]:
    """Return the scores of diffprivlib, one list per epsilon."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    lines = [
        json.dumps({"epsilon": epsilon, "norm": split.norm, "seeds": list(range(runs))})
        for epsilon in EPSILONS
    ]
    with tempfile.TemporaryDirectory() as folder:
        file = str(Path(folder) / "data.npz")
        arrays = {
            key: getattr(split, key) for key in ("features", "answers", "held_out", "expected")
        }
        np.savez(file, bounds=np.array(split.public.get("bounds_y", ())), **arrays)
        answer = subprocess.run(
            [python, "-P", str(PEER), file],
            input="\n".join(lines), capture_output=True, check=True, text=True, env=environment,
        )  # fmt: skip
    return [json.loads(line) for line in answer.stdout.splitlines()]


def measured(python: str, name: str) -> list[dict]:
    """Return one record per epsilon: all scores of privopt, and of diffprivlib or the constant."""
    split, result, runs = task(name), [], RUNS.get(name.partition(":")[0], 10)
    without_peer = ":" in name
    peers = [[constant(split)]] * len(EPSILONS) if without_peer else theirs(python, split, runs)
    for epsilon, peer in zip(EPSILONS, peers, strict=True):
        row = {"epsilon": epsilon, "constant" if without_peer else "diffprivlib": peer}
        row |= {
            "pure": ours(split, epsilon, 0.0, runs),
            "approximate": ours(split, epsilon, DELTA, runs),
        }
        result.append({key: np.round(value, 5).tolist() for key, value in row.items()})
    return result


def constant(split: Task) -> float:
    """Return the score of the constant that is best on the held-out records."""
    if "bounds_y" in split.public:
        return 0.0
    return float(max(np.mean(split.expected == label) for label in split.public["classes"]))


def table(record: dict) -> str:
    """Return a record as Markdown, with means and standard errors over runs."""
    lines = [
        "# Private models beside diffprivlib",
        "",
        "Accuracy on held-out records (california: R^2, at most 1), mean and standard error over",
        "runs. Both libraries use default arguments, with an intercept and the same public norms",
        "and bounds. diffprivlib is pure epsilon-DP. For privopt, pure is (epsilon, 0)-DP and",
        f"approximate is (epsilon, {DELTA:g})-DP, a weaker guarantee; the relation is replace-one.",
        "The default radii of privopt were chosen by accuracies on these sets, once for all",
        "epsilons and sets. The standard errors contain the noise only, because there is one",
        "public split. digits: diffprivlib fits its classes one-against-the-rest, each with a",
        "tenth of epsilon. california: the noise of diffprivlib's functional mechanism is larger",
        "than the smallest eigenvalue of the features. privopt adds noise to second moments, and a",
        "ridge that is larger than the noise.",
        *_rows(record, "diffprivlib"),
        "",
        "diffprivlib has no support vector machine and no quantile regression, here for the",
        "median. These models are compared with the constant that is best on the held-out records.",
        *_rows(record, "constant"),
    ]
    peers = ", ".join(f"{name} {number}" for name, number in record["peer"].items())
    return "\n".join([*lines, "", f"Written by `{record['command']}`, beside {peers}.", ""])


def _rows(record: dict, beside: str) -> list[str]:
    """Return the table of the data sets with scores of ``beside``."""
    lines = [
        "",
        f"| data | model | runs | epsilon | {beside} | pure | approximate | pure at least that |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, rows in record["sets"].items():
        for row in rows if beside in rows[0] else ():
            cells = (summary(row[key]) for key in (beside, "pure", "approximate"))
            met = "yes" if np.mean(row["pure"]) >= np.mean(row[beside]) else "**no**"
            first = f"| {name.partition(':')[0]} | {model_name(name)} | {len(row['pure'])}"
            lines.append(f"{first} | {row['epsilon']:g} | {' | '.join(cells)} | {met} |")
    return lines


def summary(scores: list[float]) -> str:
    """Return the mean and the standard error as text."""
    if len(scores) == 1:
        return f"{scores[0]:.3f}"
    return f"{np.mean(scores):.3f} ± {np.std(scores, ddof=1) / len(scores) ** 0.5:.3f}"


def main() -> None:
    """Measure the data sets in the command, and record the scores."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="data sets; all by default")
    parser.add_argument("--python", default=str(PYTHON), help="environment with diffprivlib")
    parser.add_argument("--table", action="store_true", help="only write the table again")
    arguments = parser.parse_args()
    if arguments.table:
        RESULTS.with_suffix(".md").write_text(table(json.loads(RESULTS.read_text())))
        return
    warnings.filterwarnings("ignore", message="the bound on the mean excess risk")
    record = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"sets": {}}
    versions = subprocess.check_output([arguments.python, "-P", str(PEER)], text=True)
    record |= {"command": "python benchmarks/estimators.py", "peer": json.loads(versions)}
    for name in arguments.names or NAMES:
        record["sets"][name] = measured(arguments.python, name)
        RESULTS.write_text(json.dumps(record) + "\n")
        RESULTS.with_suffix(".md").write_text(table(record))
        for row in record["sets"][name]:
            print(name, {key: round(float(np.mean(row[key])), 3) for key in row})


if __name__ == "__main__":
    main()
