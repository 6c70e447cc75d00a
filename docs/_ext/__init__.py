"""Sphinx extensions of the book: API pages, result pages, notebooks and formulas."""
