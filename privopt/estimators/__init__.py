"""Private linear models with the interface of scikit-learn, and tables with public bounds.

    model = LogisticRegression(budget=budget, data_norm=1.0, classes=(0, 1))
    model.fit(X, y).guarantee_

The package needs the extra ``privopt[lab]``, for scikit-learn. :class:`Table` maps a data frame to
features of bounded norm. Only ``fit`` of a model is private. Other parts of scikit-learn read the
data without noise:

- **Scaling.** ``StandardScaler``, ``MinMaxScaler``, ``PCA``, imputers and encoders compute means,
  variances, extremes or categories of the data without noise. A pipeline with one of them is not
  private: its rows depend on all records, so ``guarantee_`` of the model does not cover it. Use
  :class:`Table`, which has public bounds.
- **Scores.** ``score``, ``cross_val_score`` and every metric of private records have no noise and
  no guarantee. Use public records, or do not publish them.
- **Cross-validation.** Each fold and each candidate is a fit. All fits compose, and the model warns
  with their guarantee: ``cross_validate`` with 5 folds is 5 fits.
- **Selection.** ``GridSearchCV`` selects by a score without noise, so ``best_params_``,
  ``cv_results_`` and the best model are not private, even if every fit is. Use
  :func:`privopt.tuned`, which accounts for every candidate and the selection.
- **Several outputs and classes.** The fits of ``MultiOutputRegressor``, ``OneVsRestClassifier`` and
  ``VotingClassifier`` compose. ``OneVsRestClassifier`` and ``VotingClassifier`` read their classes
  from ``y``; :class:`MultinomialRegression` has public classes and is one fit.
- **Ensembles.** The fits of ``BaggingClassifier`` compose. With ``bootstrap=True`` a sample can
  contain a record ``k`` times, and the guarantee of its fit is then ``guarantee_.group(k)``; use
  ``bootstrap=False``.
- **Models of predictions.** ``CalibratedClassifierCV`` and ``StackingClassifier`` fit a second
  model to private labels without noise: they are not private.
- **Splits.** Stratified splits depend on all labels, and warn or fail if a class is rare.
"""

from privopt.estimators.classifiers import LinearSVC, LogisticRegression, MultinomialRegression
from privopt.estimators.private_model import PrivateModel
from privopt.estimators.regressors import LinearRegression, QuantileRegression
from privopt.estimators.table import Category, Number, Table, approximate_bounds

__all__ = [
    "Category",
    "LinearRegression",
    "LinearSVC",
    "LogisticRegression",
    "MultinomialRegression",
    "Number",
    "PrivateModel",
    "QuantileRegression",
    "Table",
    "approximate_bounds",
]
