"""Texts: what sparse and dense algorithms make of documents of few words, at one guarantee."""

from privopt.lab import Axis, Experiment, Setting

experiment = Experiment(
    name="sparse_workload",
    title="On texts",
    description=(""),
    algorithms={
        "dp_gd": {"steps": 30},
        "dp_gd, projected gradients": {"algorithm": "dp_gd", "steps": 30, "post": "sparse"},
        "dp_sgd": {"steps": 100, "batch_size": 128},
        "output_perturbation": {},
        "linf_output_perturbation": {},
    },
    families=("vocabulary_logistic",),
    if_present=("rcv1_logistic", "sector_logistic"),
    base=Setting(epsilon=4.0),
    axes=(Axis("epsilon", (1.0, 4.0, 16.0, 64.0), quick=(4.0,)),),
    relation="replace_one",
    delta=1e-6,
    checks=("bound",),
    replicates={"quick": 8, "full": 32},
)
