"""One call that compares algorithms on a problem at one guarantee: a table, a picture, winners."""

from privopt.comparison.comparing import compare
from privopt.comparison.comparison import Comparison
from privopt.comparison.winners import Winner

__all__ = ["Comparison", "Winner", "compare"]
