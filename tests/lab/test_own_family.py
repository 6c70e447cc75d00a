"""A problem of the user's own in an experiment: certified, judged and drawn like a built-in one."""

import math
from dataclasses import dataclass, field, replace

import jax.numpy as jnp
import numpy as np
import pytest
from builders import experiment

from privopt import lab
from privopt.convex import L1Ball, pytree_dataclass
from privopt.lab import Axis, Setting
from privopt.lab.runner.measure import digest
from privopt.problems import FAMILIES, Family, Problem, multinomial
from privopt.spec import ProblemClass

N, DIM = 60, 3
MEDIANS = "its rate is tight on rounded_medians, not on own_median"


def smooth_distance(w, record):
    """1-Lipschitz and 1-smooth."""
    return jnp.sqrt(1.0 + jnp.sum((w - record) ** 2)) - 1.0


@pytest.fixture(scope="module")
def families(tmp_path_factory):
    """Return a user-defined loss on a user's file over the l1 ball, and a matrix parameter."""
    path = tmp_path_factory.mktemp("data") / "records.csv"
    records = np.random.default_rng(0).normal(size=(N, DIM))
    np.savetxt(path, records, delimiter=",", header="a,b,c")
    table = np.loadtxt(path, delimiter=",", skiprows=1)
    class_ = ProblemClass(n=N, dim=DIM, lipschitz=1.0, radius=0.5, smoothness=1.0)
    median = Problem(
        loss=smooth_distance,
        data=table,
        problem_class=class_,
        constraint=L1Ball(0.5),
        name="own_median",
    )
    rows = table / np.maximum(1.0, np.linalg.norm(table, axis=1, keepdims=True))
    matrix = multinomial(
        rows,
        np.argmax(table, axis=1),
        classes=range(3),
        problem_class=ProblemClass(
            n=N, dim=9, lipschitz=math.sqrt(2.0), radius=1.0, smoothness=0.5
        ),
        name="own_classes",
    )
    return Family.of(median, "medians of a file"), Family.of(matrix)


def declared(families, **changes):
    given = {"name": "own", "families": families, "base": Setting(n=N, epsilon=1.0)}
    given |= {"axes": (Axis("n", (30, 60)),), "replicates": {"quick": 8, "full": 8}}
    return experiment(**{**given, "checks": ("bound", "slope"), **changes})


def test_a_family_of_ones_own_is_swept_certified_judged_and_drawn(families, tmp_path):
    result = lab.run(declared(families), profile="quick", seed=0, results=tmp_path)
    rows = lab.read(result.folder).table().to_pylist()
    assert {(row["family"], row["n"], row["dim"]) for row in rows} == {
        (name, n, dim) for name, dim in (("own_median", 3), ("own_classes", 9)) for n in (30, 60)
    }
    for row in rows:
        assert 0.0 <= row["reference_gap"] <= 2e-9
        assert row["value"] >= -row["reference_gap"]
        assert row["nonprivate_value"] < row["start_value"]
    verdicts = lab.verdicts(lab.read(result.folder))
    judged = {(each.family, each.check): each for each in verdicts}
    assert {place: each.outcome for place, each in judged.items()} == {
        ("own_median", "bound"): "vacuous",
        ("own_classes", "bound"): "vacuous",
        ("own_median", "slope"): "not applicable",
        ("own_classes", "slope"): "not applicable",
    }
    assert judged["own_median", "slope"].detail == MEDIANS
    page = lab.write_report(tmp_path).read_text().replace("<wbr>", "")
    assert "own_median" in page
    assert "own_classes" in page
    assert MEDIANS in page
    assert "privopt.lab.run(experiment, profile=&#39;quick&#39;, seed=0" in page  # no file of it
    assert list((tmp_path / "own").glob("*.png"))


def test_what_stays_undecided_is_said_as_it_runs(families, tmp_path, capsys):
    lab.run(declared(families[:1]), profile="quick", seed=0, results=tmp_path)
    assert capsys.readouterr().err.splitlines() == [
        f"own: the slope of dp_gd on own_median is not tested: {MEDIANS}"
    ]


def test_privopts_own_family_may_have_other_strengths():
    one = replace(FAMILIES["linear"], strengths=(2.0,))
    found = declared((one,), base=Setting(n=N, dim=DIM, epsilon=1.0))
    assert {cell.strength for cell in lab.cells(found, "quick")} == {2.0}


def test_the_first_records_are_those_of_a_smaller_file(families):
    own, records = families[0], families[0].build(n=N, dim=DIM, noise_ratio=1.0, strength=1.0).data
    small = own.build(n=30, dim=DIM, noise_ratio=1.0, strength=1.0)
    class_ = replace(small.problem_class, n=30)
    alone = Problem(
        loss=smooth_distance, data=records[:30], problem_class=class_, constraint=L1Ball(0.5)
    )
    point = np.array([0.1, -0.2, 0.05])
    assert small.risk(point) == pytest.approx(alone.risk(point), rel=1e-13)
    assert small.reference.value == pytest.approx(alone.reference.value, abs=1e-9)
    small.check()
    assert not own.hard


@pytree_dataclass
@dataclass(frozen=True)
class Scaled:
    """A loss with a number that shapes its program."""

    scale: float = field(metadata={"static": True})

    def __call__(self, w, x):
        return self.scale * jnp.sqrt(1.0 + jnp.sum((w - x) ** 2))


def test_another_static_number_of_a_loss_is_other_data():
    """Else a sweep would take the finished cells of the one for those of the other."""
    class_ = ProblemClass(n=4, dim=DIM, lipschitz=1.0, radius=0.5)
    losses = (Scaled(0.5), Scaled(0.25), Scaled(0.5), lambda w, x: jnp.sum(w * x))
    digests = [
        digest(Problem(loss=loss, data=np.eye(4, DIM), problem_class=class_)) for loss in losses
    ]
    assert digests[0] == digests[2]
    assert len(set(digests)) == 3


def test_names_are_kept_apart(families):
    own = families[0]
    found = declared(("linear", own), base=Setting(n=N, dim=DIM, epsilon=1.0))
    assert found.family("own_median") is own
    assert found.family("linear") is FAMILIES["linear"]
    assert replace(found, title="Again").family("own_median") is own
    assert declared((FAMILIES["linear"],)).family("linear") is FAMILIES["linear"]
    with pytest.raises(ValueError, match="family must be one of linear"):
        found.family("nonsense")


REFUSED = [
    (lambda own: (own, own), "families must be distinct, got own_median, own_median"),
    (lambda own: (replace(own, name="linear"),), "must not be one of privopt's, got 'linear'"),
    (lambda own: (replace(own, name="My median"),), "name of a family must be of small letters"),
    (lambda own: (own.build,), r"family must be one of linear, .*, got an object of type partial"),
]


@pytest.mark.parametrize(("given", "message"), REFUSED)
def test_what_is_no_family_of_another_name_is_refused(families, given, message):
    with pytest.raises(ValueError, match=message):
        declared(given(families[0]))


def test_sizes_that_the_file_lacks_are_refused(families):
    own = families[0]
    with pytest.raises(ValueError, match="n must be at most 60 for own_median, got 61"):
        own.build(n=61, dim=DIM, noise_ratio=1.0, strength=1.0)
    with pytest.raises(ValueError, match="dim must be 3 for own_median, got 4"):
        own.build(n=6, dim=4, noise_ratio=1.0, strength=1.0)
    with pytest.raises(ValueError, match="counts and probabilities must be left out"):
        own.build(n=6, dim=DIM, noise_ratio=1.0, strength=1.0).first(5)
