"""Runner of experiments. Public names are in :mod:`privopt.lab`."""

__all__ = ()
