"""Records on several devices: the same runs, and no transfer of records between devices."""

import os
import re
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import jax
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from selection import choose, few

import privopt
from privopt.core import running
from privopt.problems import logistic
from privopt.spec import ProblemClass

DEVICES = 8
N, DIM = 4096, 24
FACTS = ProblemClass(n=N, dim=DIM, lipschitz=1.0, radius=1.0, smoothness=0.25)
BUDGET = privopt.Budget(epsilon=1.0, delta=1e-6, relation="replace_one")
# What is asked of a plan, and the most numbers that devices may tell each other at once: those of
# a gradient, or of a batch.
ASKED = {
    "dp_gd": ({"steps": 3}, DIM),
    "dp_sgd": ({"steps": 3, "batch_size": 64}, 144 * (DIM + 2)),
    "noisy_adam": ({"steps": 3, "batch_size": 64}, 144 * (DIM + 2)),
    "dp_ftrl": ({"batch_size": 64, "epochs": 1}, 64 * (DIM + 2)),
    "objective_perturbation": ({}, DIM),
    "output_perturbation": ({}, DIM),
}
NAMES = few(ASKED, ["dp_gd", "dp_sgd"])  # a gradient of all records, and a batch
GATHERED = pytest.mark.xfail(strict=True, reason="a solver gathers all records, as the page says")
GATHER = {"objective_perturbation", "output_perturbation"}
COLLECTIVE = re.compile(r"= (.*?) (?:all-\w+|collective-\w+|reduce-scatter)(?:-start)?\(")


def records():
    rng = np.random.default_rng(0)
    features = rng.normal(size=(N, DIM)).astype(np.float32)
    features /= 1.001 * np.linalg.norm(features, axis=1, keepdims=True)
    return features, np.where(features[:, 0] > 0, 1.0, -1.0).astype(np.float32)


def spread(array, placed=jax.device_put):
    mesh = Mesh(np.array(jax.devices()), ("records",))
    return placed(array, NamedSharding(mesh, PartitionSpec("records")))


def from_this_process(array, sharding):
    """Return the share of the records of this process."""
    share = np.split(array, jax.process_count())[jax.process_index()]
    return jax.make_array_from_process_local_data(sharding, share)


def compare(placed, names):
    """Compare a run on all devices with one on a single device, up to the order of sums."""
    key = jax.random.key(3)
    alone = logistic(*records(), problem_class=FACTS)
    together = logistic(*[spread(each, placed) for each in records()], problem_class=FACTS)
    for name in names:
        plan = privopt.ALGORITHMS[name].plan(FACTS, BUDGET, **ASKED[name][0])
        found, expected = (privopt.run(plan, each, key).released for each in (together, alone))
        assert found.is_fully_replicated
        np.testing.assert_allclose(found.addressable_data(0), expected, rtol=0, atol=1e-6)


def transfers(plan, problem, monkeypatch):
    """Return the size of each collective of the compiled run."""
    asked = []
    with monkeypatch.context() as patched:
        original = running.run_all
        patched.setattr(running, "run_all", lambda *given: asked.append(given) or original(*given))
        privopt.run(plan, problem, jax.random.key(0))
    text = original.lower(*asked[0]).compile().as_text()
    shapes = (re.findall(r"\w+\[([\d,]*)\]", found) for found in COLLECTIVE.findall(text))
    return [sum(int(np.prod([int(n) for n in s.split(",") if n])) for s in each) for each in shapes]


@pytest.mark.optimised
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=GATHERED if name in GATHER else ()) for name in NAMES]
)
def test_devices_tell_each_other_a_gradient_or_a_batch_and_never_the_records(name, monkeypatch):
    if len(jax.devices()) < DEVICES:
        pytest.skip("run by the test below, in a process with eight devices")
    asked, most = ASKED[name]
    problem = logistic(*map(spread, records()), problem_class=FACTS)
    found = transfers(privopt.ALGORITHMS[name].plan(FACTS, BUDGET, **asked), problem, monkeypatch)
    assert found
    assert max(found) <= most < N


def test_runs_of_spread_records_are_those_of_one_device():
    if len(jax.devices()) < DEVICES:
        pytest.skip("run by the test below, in a process with eight devices")
    compare(jax.device_put, NAMES)
    plan = privopt.dp_sgd(FACTS, BUDGET, steps=3, batch_size=64)
    alone = logistic(*records(), problem_class=FACTS)
    problem = logistic(*map(spread, records()), problem_class=FACTS)
    runs = partial(privopt.run_many, [plan], keys=jax.random.split(jax.random.key(1), 3))
    released = np.asarray(runs(alone).released)
    np.testing.assert_array_equal(runs(problem).released, released)
    assert released.std() > 0


def test_a_mesh_that_does_not_divide_the_records_is_refused():
    if len(jax.devices()) < DEVICES:
        pytest.skip("run by the test below, in a process with eight devices")
    with pytest.raises(ValueError, match="4095"):
        spread(records()[0][1:])


def test_on_eight_devices():
    flags = f"{os.environ['XLA_FLAGS']} --xla_force_host_platform_device_count={DEVICES}"
    every = choose(["--all"], [])
    told = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:xdist", *every, __file__, "-k", "not on_"],
        env={**os.environ, "XLA_FLAGS": flags},
        capture_output=True,
        text=True,
    )
    assert told.returncode == 0, told.stdout
    assert " skipped" not in told.stdout


@pytest.mark.thorough  # with the collectives of the test above
def test_on_two_processes_each_of_which_has_half_of_the_records(free_port):
    names = choose([*ASKED], ["dp_sgd"])
    code = (
        "import sys, jax; jax.config.update('jax_cpu_collectives_implementation', 'gloo');"
        f"jax.distributed.initialize('localhost:{free_port}', 2, int(sys.argv[1]));"
        f"import test_sharding as here; here.compare(here.from_this_process, {names})"
    )

    def process(number):
        command = [sys.executable, "-c", code, str(number)]
        folder = os.path.dirname(__file__)
        return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)

    with ThreadPoolExecutor(2) as pool:
        for told in pool.map(process, range(2)):
            assert told.returncode == 0, told.stderr[-3000:]


@pytest.fixture
def free_port():
    with socket.socket() as found:
        found.bind(("localhost", 0))
        return found.getsockname()[1]
