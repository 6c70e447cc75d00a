"""Factorisations of the matrix of prefix sums. Host side: NumPy and SciPy, never JAX.

DP-FTRL and matrix mechanisms add correlated noise to prefix sums. :func:`factorise` constructs a
factorisation by name, with its coefficients, its sensitivity under repeated participation and its
error.
"""

from privopt.factorisations.buffers import BufferedFactorisation
from privopt.factorisations.dense import DenseFactorisation
from privopt.factorisations.factorisation import (
    Factorisation,
    Patterns,
    RestartedFactorisation,
    patterns,
)
from privopt.factorisations.factorise import FACTORISATIONS, factorise
from privopt.factorisations.toeplitz import (
    SeriesFactorisation,
    ToeplitzFactorisation,
    inverse_square_root,
    square_root,
)
from privopt.factorisations.trees import TreeFactorisation, tree_height

__all__ = [
    "FACTORISATIONS", "BufferedFactorisation", "DenseFactorisation", "Factorisation",
    "Patterns", "RestartedFactorisation", "SeriesFactorisation", "ToeplitzFactorisation",
    "TreeFactorisation", "factorise", "inverse_square_root", "patterns", "square_root",
    "tree_height",
]  # fmt: skip
