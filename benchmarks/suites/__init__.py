"""What is measured and what is wanted of it, one file a record under ``results/performance``.

A suite has a ``TITLE``, the ``PACKAGES`` whose versions it records, the ``PEERS`` it needs beside
privopt, ``measured(repeats)``, which gives a record and the lines of its table, and
``described(record)``, which says in a few lines what they are about.
"""
