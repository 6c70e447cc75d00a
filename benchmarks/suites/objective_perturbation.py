"""Suite of objective perturbation: time and excess risk, compared with diffprivlib."""

from __future__ import annotations

from collections.abc import Iterator

import process
from line import Line

TITLE = "Objective perturbation"
PACKAGES = ("privopt", "jax", "jaxlib", "numpy")
PEERS = ()
PYTHON = process.HERE.parent / ".venv" / "diffprivlib" / "bin" / "python"
PURE, APPROXIMATE = "pure epsilon 1", "(1, 1e-6)"


def measured(repeats: int) -> tuple[dict, list[Line]]:
    if not PYTHON.exists():
        raise SystemExit("diffprivlib is not installed beside privopt. Run make performance.")
    result = process.measured(
        "objective_perturbation.py",
        f"--python={PYTHON}",
        f"--repeats={repeats}",
        cores=process.cores()[-1:],
    )
    return result, list(lines(result))


def described(result: dict) -> list[str]:
    versions = ", ".join(f"{name} {number}" for name, number in result["peer"].items())
    return [
        "Logistic regression, n = 10,000, d = 100, float64, one thread, features of norm 1, no",
        "intercept. diffprivlib needs another version of scikit-learn, so it runs in a separate",
        f"environment ({versions}), on the same core, in turn; only `fit` is timed. It supports",
        "pure privacy only. It runs with its default C = 1 and with C = 1/(n lambda) for both",
        "lambdas of privopt, and its best setting counts in every line. Both libraries are",
        "compared on the ball of radius 10, onto which the coefficients of diffprivlib are",
        "projected. Without the projection they may be outside, with a smaller risk than every",
        "point of the ball; these risks are reported as well. Its solver stops at its default",
        "tolerance, gradients of 1e-4. Excess risk, without regulariser, is relative to the",
        "non-private optimum in that ball, the mean of 100 seeds; the zero predictor has",
        f"{result['zero_predictor']:.4f}. Last column: with the regulariser, for settings with a",
        "lambda of privopt.",
        "",
        "| | lambda | excess risk | projected | same lambda |",
        "|---|---|---|---|---|",
        *(row(name, each) for name, each in result["excess_risk"].items()),
    ]


def row(name: str, each: dict) -> str:
    projected = each.get("projected")
    own = next((key for key in each if key.startswith("with") and name.endswith(budget(key))), "")
    cells = [
        f"{each['regularisation']:.1e}",
        f"{each['risk']:.4f}",
        f"{projected['risk']:.4f}" if projected else "",
        f"{min(each[own], (projected or each)[own]):.4f}" if own else "",
    ]
    return f"| {name} | {' | '.join(cells)} |"


def budget(key: str) -> str:
    return key.removeprefix("with the regulariser of ")


def lines(result: dict) -> Iterator[Line]:
    yield timed("one fit", result, "one fit", 1, 2.0)
    yield timed("100 fits in one call, against a loop", result, "100 fits", 100, 6.0)
    for dim, ratios in result["small"].items():
        for name, ratio in ratios.items():
            fits, target = (1, 1.0) if name.endswith("one fit") else (100, 5.0)
            speed = fits * ratio
            detail = f"d = {dim}, pure epsilon 1, against C = 1"
            yield Line(name, detail, f"{speed:.2f}x", f">= {target:g}x", speed >= target)
    for name, target, budgets in (
        (PURE, 1.0, "both at pure epsilon 1"),
        (APPROXIMATE, 1.0 / 3.0, "ours at (1, 1e-6), theirs at pure epsilon 1"),
    ):
        question = f"excess risk, {budgets}"
        yield worth(f"{question}, in the ball", result, name, target, projected=True)
        yield worth(f"{question}, theirs as it is", result, name, target, projected=False)


def timed(question: str, result: dict, kind: str, fits: int, target: float) -> Line:
    """Return the least ratio: the slower budget of privopt and the fastest setting of the peer."""
    ratio, ours, theirs = min(
        (ratio * fits, name, other)
        for name, others in result["ratios"].items()
        if name.endswith(kind)
        for other, ratio in others.items()
    )
    times = result["seconds"]
    detail = (
        f"the least of 6: {1e3 * times[ours]:,.1f} ms ({ours}) beside "
        f"{1e3 * fits * times[theirs]:,.1f} ms ({theirs})"
    )
    return Line(question, detail, f"{ratio:.2f}x", f">= {target:g}x", ratio >= target)


def worth(question: str, result: dict, name: str, target: float, *, projected: bool) -> Line:
    excess = result["excess_risk"]
    best, whose = min(
        ((each["projected"] if projected else each)["risk"], other)
        for other, each in excess.items()
        if "projected" in each
    )
    ours = excess[f"privopt, {name}"]["risk"]
    return Line(
        question,
        f"{ours:.4f} beside {best:.4f} ({whose})",
        f"{ours / best:.2f} times" if best > 0.0 else "theirs is below the optimum in the ball",
        f"<= {target:.2g} times",
        ours <= target * best,
    )
