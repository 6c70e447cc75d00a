"""Runner of experiments. Import its public names from :mod:`privopt.lab`."""
