"""Tests of the decorator: it fails if a broken check passes or a correct one fails."""

import pytest
from museum.exhibits import exhibit


def is_even(number):
    """Odd numbers."""
    assert number % 2 == 0


def test_a_check_passes_what_is_sound_and_catches_all_that_is_broken():
    exhibit(2, 3, 5)(is_even)()
    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        exhibit(2, 3, 4)(is_even)()
    with pytest.raises(AssertionError):
        exhibit(1, 3)(is_even)()
    with pytest.raises(TypeError):  # broken is what fails the check, not what cannot be checked
        exhibit(2, "three")(is_even)()
