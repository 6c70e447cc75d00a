"""Private models beside those of diffprivlib, each as its constructor leaves it.

    PRIVOPT_DATA=... .venv/bin/python benchmarks/estimators.py [breast_cancer] [a9a:svc] ...

Both are given the same rows, the public bound on their norm, and an intercept; of a regression the
public bounds of the answers, to which the predictions of both are clamped. diffprivlib is pure
epsilon-DP, so privopt is run at ``delta = 0`` and at ``delta = 1e-6``, under ``replace_one``.
diffprivlib's regression is the functional mechanism, which is told bounds of columns. Nothing is
tuned at one epsilon or set; but privopt's default radii were chosen by accuracies on these sets.
``:svc`` and ``:median`` ask for models that diffprivlib does not have, beside the best constant.
``make performance`` installs diffprivlib. Sets that are named are measured again; the others stay
as they were recorded.
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
RUNS = {"digits": 3, "a9a": 5}  # of the others 10
MODELS = {
    "digits": "MultinomialRegression",
    "california": "LinearRegression",
    "california:median": "QuantileRegression",
} | {f"{name}:svc": "LinearSVC" for name in ("breast_cancer", "mushrooms", "a9a")}
NAMES = ("breast_cancer", "mushrooms", "a9a", "digits", *MODELS)  # the others are logistic
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
    """Records to learn from and held out ones; classes, or the bounds of the answers."""

    features: np.ndarray
    answers: np.ndarray
    held_out: np.ndarray
    expected: np.ndarray
    norm: float
    model: type
    public: dict[str, Any]


def task(name: str) -> Task:
    """A fifth of a public order is held out."""
    source, model = name.partition(":")[0], getattr(estimators, of_model(name))
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
    features, answers, kept = features[order], answers[order], len(answers) * 4 // 5
    rows = features[:kept], answers[:kept], features[kept:], answers[kept:]
    return Task(*rows, norm, model, public)


def of_model(name: str) -> str:
    """The class of ``estimators``."""
    return MODELS.get(name, "LogisticRegression")


def ours(of: Task, epsilon: float, delta: float, runs: int) -> list[float]:
    """A score a run, by the recommended method."""
    budget = privopt.Budget(epsilon=epsilon, delta=delta, relation="replace_one")
    scores = []
    for key in jax.random.split(jax.random.key(0), runs):
        model = of.model(budget=budget, data_norm=of.norm, key=key, **of.public)
        scores.append(model.fit(of.features, of.answers).score(of.held_out, of.expected))
    return scores


def theirs(python: str, of: Task, runs: int) -> list[list[float]]:
    """Their scores, a list an epsilon."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    lines = [
        json.dumps({"epsilon": epsilon, "norm": of.norm, "seeds": list(range(runs))})
        for epsilon in EPSILONS
    ]
    with tempfile.TemporaryDirectory() as folder:
        file = str(Path(folder) / "data.npz")
        arrays = {key: getattr(of, key) for key in ("features", "answers", "held_out", "expected")}
        np.savez(file, bounds=np.array(of.public.get("bounds_y", ())), **arrays)
        answer = subprocess.run(
            [python, "-P", str(PEER), file],
            input="\n".join(lines), capture_output=True, check=True, text=True, env=environment,
        )  # fmt: skip
    return [json.loads(line) for line in answer.stdout.splitlines()]


def measured(python: str, name: str) -> list[dict]:
    """One record an epsilon: all scores of privopt, and of diffprivlib or the best constant."""
    of, found, runs = task(name), [], RUNS.get(name.partition(":")[0], 10)
    alone = ":" in name
    peers = [[constant(of)]] * len(EPSILONS) if alone else theirs(python, of, runs)
    for epsilon, peer in zip(EPSILONS, peers, strict=True):
        row = {"epsilon": epsilon, "constant" if alone else "diffprivlib": peer}
        row |= {"pure": ours(of, epsilon, 0.0, runs), "approximate": ours(of, epsilon, DELTA, runs)}
        found.append({key: np.round(value, 5).tolist() for key, value in row.items()})
    return found


def constant(of: Task) -> float:
    """The score of the constant that is best on the records held out: no model knows it."""
    if "bounds_y" in of.public:
        return 0.0
    return float(max(np.mean(of.expected == label) for label in of.public["classes"]))


def table(record: dict) -> str:
    """A record as Markdown: means and standard errors over runs."""
    lines = [
        "# Private models beside diffprivlib",
        "",
        "Accuracy on records held out (california: R^2, at most 1), mean and standard error over",
        "runs. Both stand as their constructors leave them, with an intercept and the same public",
        "norms and bounds. diffprivlib is pure epsilon-DP. Of privopt, pure is (epsilon, 0)-DP and",
        f"approximate (epsilon, {DELTA:g})-DP, which is a weaker guarantee; the relation is",
        "replace-one. The default radii of privopt were chosen by accuracies on these sets, once",
        "for all epsilons and sets. The errors tell of the noise, on one public split. digits: its",
        "classes are fitted one against the rest, each at a tenth of epsilon. california: the",
        "noise of diffprivlib's functional mechanism outweighs the least eigenvalue of the",
        "features. privopt adds noise to second moments and a ridge that outweighs the noise.",
        *_rows(record, "diffprivlib"),
        "",
        "diffprivlib has no support vector machine and no regression of a quantile, here the",
        "median. Beside them stands the constant that is best on the records held out.",
        *_rows(record, "constant"),
    ]
    peers = ", ".join(f"{name} {number}" for name, number in record["peer"].items())
    return "\n".join([*lines, "", f"Written by `{record['command']}`, beside {peers}.", ""])


def _rows(record: dict, beside: str) -> list[str]:
    """The table of those sets that have such a score."""
    lines = [
        "",
        f"| data | model | runs | epsilon | {beside} | pure | approximate | pure at least that |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, rows in record["sets"].items():
        for row in rows if beside in rows[0] else ():
            shown = (told(row[key]) for key in (beside, "pure", "approximate"))
            met = "yes" if np.mean(row["pure"]) >= np.mean(row[beside]) else "**no**"
            first = f"| {name.partition(':')[0]} | {of_model(name)} | {len(row['pure'])}"
            lines.append(f"{first} | {row['epsilon']:g} | {' | '.join(shown)} | {met} |")
    return lines


def told(scores: list[float]) -> str:
    """Mean and standard error."""
    if len(scores) == 1:
        return f"{scores[0]:.3f}"
    return f"{np.mean(scores):.3f} ± {np.std(scores, ddof=1) / len(scores) ** 0.5:.3f}"


def main() -> None:
    """Measure the sets that are named, and record them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="data sets; all by default")
    parser.add_argument("--python", default=str(PYTHON), help="that has diffprivlib")
    parser.add_argument("--table", action="store_true", help="write the table again, no more")
    given = parser.parse_args()
    if given.table:
        RESULTS.with_suffix(".md").write_text(table(json.loads(RESULTS.read_text())))
        return
    warnings.filterwarnings("ignore", message="the bound on the mean excess risk")
    record = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"sets": {}}
    versions = subprocess.check_output([given.python, "-P", str(PEER)], text=True)
    record |= {"command": "python benchmarks/estimators.py", "peer": json.loads(versions)}
    for name in given.names or NAMES:
        record["sets"][name] = measured(given.python, name)
        RESULTS.write_text(json.dumps(record) + "\n")
        RESULTS.with_suffix(".md").write_text(table(record))
        for row in record["sets"][name]:
            print(name, {key: round(float(np.mean(row[key])), 3) for key in row})


if __name__ == "__main__":
    main()
