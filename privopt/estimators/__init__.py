"""Private models in scikit-learn's manner: a budget, a public norm and a key, then ``fit``.

They come with the extra ``privopt[lab]``, for scikit-learn.
"""

from privopt.estimators.classifiers import LinearSVC, LogisticRegression, MultinomialRegression
from privopt.estimators.private_model import PrivateModel
from privopt.estimators.regressors import LinearRegression, QuantileRegression

__all__ = [
    "LinearRegression",
    "LinearSVC",
    "LogisticRegression",
    "MultinomialRegression",
    "PrivateModel",
    "QuantileRegression",
]
