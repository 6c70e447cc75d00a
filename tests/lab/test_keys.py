"""Keys by name: the same name gives the same key, any other name another one."""

import itertools

import jax
import numpy as np
import pytest

from privopt.lab import replicate_keys, stream

GOLDEN = (1746489928, 786761405)


def words(key) -> tuple[int, ...]:
    return tuple(np.asarray(jax.random.key_data(key)).ravel().tolist())


def test_order_of_axes_does_not_matter():
    assert words(stream(0, n=3, dim=2, role="noise")) == words(stream(0, role="noise", dim=2, n=3))


def test_other_names_and_values_give_other_keys():
    grid = itertools.product((0, 1, -1, 2**40), ("a", "ab", ""), (1, 2, 10), (0.5, 1.0, np.inf))
    keys = [words(stream(s, algorithm=a, n=n, epsilon=e)) for s, a, n, e in grid]
    keys += [words(stream(0, family="a", n=1, epsilon=0.5)), words(stream(0, algorithm="a", n=1))]
    assert len(set(keys)) == len(keys) == 4 * 3 * 3 * 3 + 2


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"x": 1}, {"x": 1.0}),
        ({"x": 1}, {"x": "1"}),
        ({"x": "1", "y": "2"}, {"x": "2", "y": "1"}),
        ({"x": 'a","y":"b'}, {"x": "a", "y": "b"}),
        ({"x": 1.0}, {"x": np.nextafter(1.0, 2.0)}),
    ],
)
def test_look_alikes_differ(one, other):
    assert words(stream(0, **one)) != words(stream(0, **other))


def test_numpy_numbers_name_what_python_numbers_name():
    assert words(stream(0, n=np.int64(7), x=np.float64(0.1))) == words(stream(0, n=7, x=0.1))


def test_more_replicates_extend_and_change_none():
    key = stream(3, role="noise")
    few, many = replicate_keys(key, 5), replicate_keys(key, 50)
    assert few.shape == (5,)
    assert jax.dtypes.issubdtype(few.dtype, jax.dtypes.prng_key)
    assert words(few) == words(many)[: len(words(few))]
    assert len({words(one) for one in many}) == 50


def test_same_keys_without_x64():
    with jax.enable_x64(False):
        short = words(replicate_keys(stream(2**60, x=1.5), 3))
    assert short == words(replicate_keys(stream(2**60, x=1.5), 3))


def test_keys_stay_what_they_are_from_version_to_version():
    assert words(stream(0, role="noise", n=1000, epsilon=0.5)) == GOLDEN


@pytest.mark.parametrize("value", [float("nan"), True, None, (1,), 1j])
def test_what_cannot_name_a_stream_is_refused(value):
    with pytest.raises(ValueError, match="epsilon must be a text or a number other than NaN, got"):
        stream(0, epsilon=value)
