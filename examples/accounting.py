"""Epsilon of a training run by four accountants, and the noise multiplier of a budget."""

import dp_accounting as dp

from privopt import Budget, accounting, privacy

RELATION, DELTA = "add_or_remove_one", 1e-5


def training(noise):  # 20 epochs over 60,000 records in Poisson batches of 256 on average
    step = dp.PoissonSampledDpEvent(256 / 60_000, dp.GaussianDpEvent(noise))
    return dp.SelfComposedDpEvent(step, 20 * 60_000 // 256)


certified = privacy.epsilon(training(1.1), DELTA, relation=RELATION)
print(f"epsilon of noise 1.1: between {certified.lower:.4f} and {certified.upper:.4f}")
for name in ("renyi", "moments", "clt"):  # the last one is an estimate and no guarantee
    method = accounting.named(name)
    other = privacy.epsilon(training(1.1), DELTA, relation=RELATION, accountant=method)
    print(f"{name}: {other}" if name == "clt" else f"{name}: at most {other.upper:.4f}")
for epsilon in (1.0, 2.0, 8.0):
    budget = Budget(epsilon=epsilon, delta=DELTA, relation=RELATION)
    print(f"noise multiplier for epsilon {epsilon}: {privacy.calibrate(training, budget):.3f}")
