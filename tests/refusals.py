"""Tests of what is refused, each a table of calls and messages."""

import pytest


def refused(*cases, of=None):
    """A test that every case is a ValueError with its message.

    A case is a call, or with ``of`` the arguments of one: a mapping of names.
    """

    @pytest.mark.parametrize(("case", "message"), cases)
    def test(case, message):
        with pytest.raises(ValueError, match=message):
            case() if of is None else of(**case)

    return test
