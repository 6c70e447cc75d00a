"""What many tests build."""

from privopt.convex import Oracle


class Answers(Oracle):
    """An oracle of functions; ``draw`` gives the batches of a block, ``stop`` ends the run."""

    def __init__(
        self, steps, ask, begin=lambda point: (), *, draw=None, block=0, stop=None, secret=None
    ):
        self.steps, self.block, self.stops = steps, block, stop is not None
        self._ask, self.begin, self.draw, self.is_over = ask, begin, draw, stop
        self.secret = secret or super().secret

    def ask(self, memory, t, point, batch=None):
        return self._ask(memory, t, point, *([] if self.block == 0 else [batch]))


def descend(method, oracle, constraint, start, key, **watching):
    """The whole run of a method."""
    return method.of(oracle, constraint, start, key, **watching).run()
