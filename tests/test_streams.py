"""Named streams of one key: no two meet, nor does one meet a step, a split or a run's stream."""

import jax
import numpy as np
import pytest

from privopt import draws
from privopt.core import replicates
from privopt.streams import STREAMS, stream


def words(keys):
    """The 64 bits of each key, as one number."""
    data = np.asarray(jax.random.key_data(keys), np.uint64).reshape(-1, 2)
    return (data[:, 0] << np.uint64(32)) | data[:, 1]


def test_names_have_numbers_of_their_own_above_those_of_steps():
    numbers = list(STREAMS.values())
    assert len(set(numbers)) == len(numbers)
    assert all(2**31 <= number < 2**32 for number in numbers)
    assert draws._STREAM not in numbers


@pytest.mark.parametrize("seed", [0, 1, 2**31])
def test_no_two_children_of_a_key_meet(seed):
    """Names, the first and the last steps, ``split`` (the same as the first steps in this JAX), and
    the streams of ``run(stream=)`` with all that these draw from: 64-bit words, all different.
    """
    key = jax.random.key(seed)
    fold = jax.vmap(jax.random.fold_in, (None, 0))
    steps = np.concatenate([np.arange(1000), 2**31 - 1 - np.arange(1000)]).astype(np.uint32)
    runs = [replicates.key_of_stream(key, np.uint32(i)) for i in (0, 1, 2, 2**31 - 1)]
    found = []
    for each in runs:
        found += [words(each), words(fold(each, steps))]
        found += [words(stream(each, name)) for name in STREAMS]
    everything = np.concatenate(found)
    assert np.unique(everything).size == everything.size
    np.testing.assert_array_equal(words(jax.random.split(key, 50)), words(fold(key, steps[:50])))


def test_streams_under_vmap_are_those_of_each_key():
    keys = jax.random.split(jax.random.key(3), 4)
    mapped = jax.vmap(lambda key: stream(key, "noise"))(keys)
    np.testing.assert_array_equal(words(mapped), [words(stream(key, "noise"))[0] for key in keys])


def test_an_unknown_name_is_refused_with_those_that_are_known():
    with pytest.raises(ValueError, match=r"name must be one of noise, batches, .*, got 'noises'"):
        stream(jax.random.key(0), "noises")
