"""A sweep by workers that share a results folder.

``python examples/cluster.py`` starts two workers on this machine. On a cluster, run the same file
with ``privopt run examples/cluster.py --engine submitit --workers 20`` or ``--engine dask``.
"""

import subprocess
import sys
import tempfile

from privopt import lab

experiment = lab.Experiment(
    name="cluster",
    title="DP-GD on linear losses: excess risk against epsilon",
    description="Mean of 20 runs for two values of epsilon.",
    algorithms={"dp_gd": {"steps": 50}},
    families=("linear",),
    base=lab.Setting(n=500, dim=5, epsilon=1.0),
    axes=(lab.Axis("epsilon", (0.5, 2.0)),),
    replicates={"quick": 20, "full": 500},
    relation="replace_one",
    delta=1e-6,
    checks=("bound",),
)

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        code = "from privopt.cli import main; main()"
        command = [sys.executable, "-c", code, "work", __file__, "--results", folder]
        workers = [subprocess.Popen(command) for _ in range(2)]
        print("exit codes:", [each.wait() for each in workers])
        result = lab.run(experiment, profile="quick", seed=0, results=folder)
        frame = lab.read(result.folder).frame()
    print(frame.groupby("epsilon")["value"].agg(["count", "mean"]).round(4))
