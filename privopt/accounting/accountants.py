"""Every accountant there is, and every estimator."""

from __future__ import annotations

from privopt import privacy
from privopt.accounting.approximation import Estimator
from privopt.accounting.clt import CLT
from privopt.accounting.composition import Advanced, Basic
from privopt.accounting.moments import Moments
from privopt.arguments import checked
from privopt.privacy import Accountant, Respondent, questions

ACCOUNTANTS: tuple[Accountant, ...] = (
    *privacy.ACCOUNTANTS,
    Basic(),
    Advanced("kov"),
    Advanced("drv"),
    Moments(),
)
ESTIMATORS: tuple[Estimator, ...] = (CLT(),)


@checked
def named(name: str) -> Respondent[object, object]:
    """The accountant or estimator of this name, or the only one whose name starts with it.

    Parameters
    ----------
    name : str
        Accents and case do not count: ``"moments"``, ``"basic"``, ``"clt"``.

    Returns
    -------
    Accountant or Estimator
        To ask by ``privacy.epsilon(..., accountant=named("clt"))`` and the like.

    Examples
    --------
    >>> import dp_accounting as dp
    >>> step = dp.PoissonSampledDpEvent(0.01, dp.GaussianDpEvent(1.0))
    >>> run, relation = dp.SelfComposedDpEvent(step, 1000), "add_or_remove_one"
    >>> print(privacy.epsilon(run, 1e-5, relation=relation, accountant=named("clt")))
    about 1.62 (CLT)
    """
    return questions.named(name, (*ACCOUNTANTS, *ESTIMATORS))
