"""A private scikit-learn estimator on a table with public bounds."""

import jax
import numpy as np
import pandas as pd

from privopt import Budget
from privopt.estimators import Category, LogisticRegression, Number, Table

rng = np.random.default_rng(0)
ages = rng.integers(18, 90, 6000)
sectors = rng.choice(["private", "public"], 6000)
frame = pd.DataFrame({"age": ages, "sector": sectors})
frame["income"] = np.where(ages + 10 * (sectors == "public") > 55, "high", "low")
train, test = frame[:5000], frame[5000:]

# Bounds, categories and classes are public knowledge. They never come from the data.
table = Table({"age": Number(0, 100), "sector": Category(("private", "public"))})
for epsilon in (0.1, 1.0, 10.0):
    model = LogisticRegression(
        budget=Budget(epsilon=epsilon, delta=1e-6, relation="replace_one"),
        data_norm=table.norm,
        classes=("low", "high"),
        key=jax.random.key(1),  # a release omits the key: it then comes from the operating system
    ).fit(table.features(train), train["income"])
    accuracy = model.score(table.features(test), test["income"])
    print(f"epsilon {model.guarantee_.epsilon(1e-6).upper:6.3f}: test accuracy {accuracy:.3f}")
