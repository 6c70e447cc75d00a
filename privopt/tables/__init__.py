"""Tables: columns with public bounds and categories, mapped to features of certified norm.

Nothing is computed from the data, except bounds for which a budget pays. Every rule depends on one
record only, so that a changed record changes one row of the features, and the norm holds for every
data set.
"""

from privopt.tables.bounds import approximate_bounds
from privopt.tables.columns import Category, Number
from privopt.tables.table import Table

__all__ = ["Category", "Number", "Table", "approximate_bounds"]
