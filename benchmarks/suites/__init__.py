"""Suites of benchmarks with targets; each writes one record to ``results/performance``.

A suite has a ``TITLE``, the ``PACKAGES`` to record with their versions, the ``PEERS`` that it
needs, ``measured(repeats)``, which returns a record and the lines of its table, and
``described(record)``, which returns a few lines of description.
"""
