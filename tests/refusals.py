"""Tests of errors, each a table of calls and messages."""

import pytest


def refused(*cases, of=None):
    """Return a test that every case raises ``ValueError`` with its message.

    A case is a call, or with ``of`` the keyword arguments of one.
    """

    @pytest.mark.parametrize(("case", "message"), cases)
    def test(case, message):
        with pytest.raises(ValueError, match=message):
            case() if of is None else of(**case)

    return test
