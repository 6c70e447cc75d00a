"""DP-SGD of opacus, in a separate environment with PyTorch.

The argument is an NPZ file with ``features``, ``labels`` and the parameters of the run. For each
line of standard input, ``direct indexing`` or ``data loader``, it prints the seconds of one step,
averaged over a second or more. Started by ``dp_sgd.py``. Without arguments it prints the versions
of the packages.

With *direct indexing* a step samples its Poisson batch as a mask over the tensors and passes it to
the hooks and the optimiser of opacus. The *data loader* is the one that ``make_private`` returns.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from importlib.metadata import version

import numpy as np
import torch
from opacus import GradSampleModule, PrivacyEngine
from opacus.optimizers import DPOptimizer
from torch.utils.data import DataLoader, TensorDataset

PACKAGES = ("opacus", "torch", "numpy")


def model(dim: int) -> torch.nn.Module:
    linear = torch.nn.Linear(dim, 1, bias=False)
    torch.nn.init.zeros_(linear.weight)
    return linear


def loss(predictions: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.softplus(-labels * predictions[:, 0]).mean()


def direct_indexing(data: dict, steps: int) -> float:
    features, labels = data["features"], data["labels"]
    module = GradSampleModule(model(features.shape[1]))
    optimizer = DPOptimizer(
        torch.optim.SGD(module.parameters(), lr=data["step_size"]),
        noise_multiplier=data["noise_multiplier"],
        max_grad_norm=data["clip_norm"],
        expected_batch_size=data["batch_size"],
    )
    rate = data["batch_size"] / len(features)
    start = time.perf_counter()
    for _ in range(steps):
        rows = torch.nonzero(torch.rand(len(features)) < rate)[:, 0]
        optimizer.zero_grad()
        loss(module(features[rows]), labels[rows]).backward()
        optimizer.step()
    return (time.perf_counter() - start) / steps


def data_loader(data: dict, steps: int) -> float:
    features, labels = data["features"], data["labels"]
    module = model(features.shape[1])
    module, optimizer, loader = PrivacyEngine().make_private(
        module=module,
        optimizer=torch.optim.SGD(module.parameters(), lr=data["step_size"]),
        data_loader=DataLoader(TensorDataset(features, labels), batch_size=data["batch_size"]),
        noise_multiplier=data["noise_multiplier"],
        max_grad_norm=data["clip_norm"],
        poisson_sampling=True,
    )
    done, start = 0, time.perf_counter()
    while done < steps:
        for batch, targets in loader:
            optimizer.zero_grad()
            loss(module(batch), targets).backward()
            optimizer.step()
            done += 1
            if done == steps:
                break
    return (time.perf_counter() - start) / steps


FORMS = {"direct indexing": (direct_indexing, 1_000), "data loader": (data_loader, 200)}


def load(file: str) -> dict:
    arrays = dict(np.load(file))
    tensors = {name: torch.from_numpy(arrays.pop(name)) for name in ("features", "labels")}
    numbers = {name: float(value) for name, value in arrays.items()}
    return tensors | numbers | {"batch_size": int(numbers["batch_size"])}


if __name__ == "__main__":
    if len(sys.argv) == 1:
        print(json.dumps({package: version(package) for package in PACKAGES}))
        sys.exit()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    data = load(sys.argv[1])
    for line in sys.stdin:
        form, steps = FORMS[line.strip()]
        print(json.dumps(form(data, steps)), flush=True)
