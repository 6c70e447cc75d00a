"""Programs with replaced parts, which no other test may use."""

import jax

_context = jax.make_user_context()


def apart():
    """Return a context. What is traced in it is kept apart from all other programs.

    It is for a test that replaces a part of the package, which the caches of JAX do not see.
    """
    return _context(object())
