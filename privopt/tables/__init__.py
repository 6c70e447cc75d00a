"""Tables: columns with public bounds and categories, made features whose norm is certified.

Nothing is estimated from the data, but for bounds that a budget pays for. Every rule looks at one
record alone, so a changed record changes one row of the features, and the norm holds for every data
set.
"""

from privopt.tables.bounds import approximate_bounds
from privopt.tables.columns import Category, Number
from privopt.tables.table import Table

__all__ = ["Category", "Number", "Table", "approximate_bounds"]
