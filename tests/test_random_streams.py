"""Named streams of a key differ from each other, from steps, splits and streams of runs."""

import jax
import numpy as np
import pytest

from privopt import random
from privopt.core import replicates
from privopt.random import STREAMS, as_key, stream


def words(keys):
    """Return the 64 bits of each key as one number."""
    data = np.asarray(jax.random.key_data(keys), np.uint64).reshape(-1, 2)
    return (data[:, 0] << np.uint64(32)) | data[:, 1]


def test_names_have_numbers_of_their_own_above_those_of_steps():
    numbers = list(STREAMS.values())
    assert len(set(numbers)) == len(numbers)
    assert all(2**31 <= number < 2**32 for number in numbers)
    assert random._STREAM not in numbers


@pytest.mark.parametrize("seed", [0, 1, 2**31])
def test_no_two_children_of_a_key_meet(seed):
    """Compare 64-bit words: names, the first and last steps, ``split`` and ``run(stream=)``.

    ``split`` agrees with the first steps in this version of JAX.
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


def test_keys_of_threefry_enter_as_they_are_and_those_of_rbg_by_their_words():
    key = jax.random.key(3)
    assert as_key(key) is key
    many = jax.random.split(jax.random.key(3, impl="rbg"), 4)
    entered = as_key(many, ndim=1)
    assert str(jax.random.key_impl(entered)) == "threefry2x32"
    each = [words(as_key(key))[0] for key in many]
    np.testing.assert_array_equal(words(entered), each)
    np.testing.assert_array_equal(words(jax.vmap(as_key)(many)), each)
    assert len(set(each)) == 4
    raw = np.array([1, 2, 3, 4], np.uint32)  # all four words count
    ways = [raw, *(np.where(np.arange(4) == i, 9, raw).astype(np.uint32) for i in range(4))]
    keys = [as_key(jax.random.wrap_key_data(way, impl="rbg")) for way in ways]
    assert len({words(key)[0] for key in keys}) == 5


def test_the_children_of_unsafe_rbg_commute_and_are_refused():
    """Check that this generator is refused: step 1 of restart 2 would equal step 2 of restart 1."""
    key, fold = jax.random.key(91827364, impl="unsafe_rbg"), jax.random.fold_in
    one, two = fold(fold(key, 1), 2), fold(fold(key, 2), 1)
    assert np.array_equal(*map(jax.random.key_data, (one, two)))
    for use in (as_key, lambda key: stream(key, "noise"), lambda key: random.normal(key, (), "f4")):
        with pytest.raises(ValueError, match=r"key must be of the generator .* got unsafe_rbg"):
            use(key)


@pytest.mark.parametrize(
    "key", [None, 0, 1.5, jax.random.PRNGKey(91827364), np.zeros(2, np.uint32), "key", object()]
)
def test_other_keys_are_refused_without_being_printed(key):
    uses = [as_key, lambda key: stream(key, "noise"), lambda key: random.normal(key, (), "f4")]
    for use in uses[:2] if isinstance(key, str) or type(key) is object else uses:
        with pytest.raises(ValueError, match="key must be a single typed key made by ") as refusal:
            use(key)
        assert "91827364" not in str(refusal.value)
    for many in (jax.random.key(0), jax.random.split(jax.random.key(0), 4).reshape(2, 2)):
        with pytest.raises(ValueError, match=r"keys must be a vector of .* got keys of shape \("):
            as_key(many, "keys", ndim=1)
    with pytest.raises(ValueError, match=r"a list of keys; write jnp.stack\(keys\)"):
        as_key([jax.random.key(0)], "keys", ndim=1)


def test_an_unknown_name_is_refused_with_those_that_are_known():
    with pytest.raises(ValueError, match=r"name must be one of noise, batches, .*, got 'noises'"):
        stream(jax.random.key(0), "noises")
