"""Random numbers depend on (seed, step, stream, row, column) and on nothing else."""

import numpy as np
import pytest
import tensorflow as tf
from scipy import stats

from electra_tf.pretraining import randomness
from electra_tf.pretraining.randomness import uniform

# kat_vectors of Random123 (threefry2x32, 20 rounds): counter, key, result.
KNOWN_ANSWERS = [
    ((0x00000000, 0x00000000), (0x00000000, 0x00000000), (0x6B200159, 0x99BA4EFE)),
    ((0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF), (0x1CB996FC, 0xBB002BE7)),
    ((0x243F6A88, 0x85A308D3), (0x13198A2E, 0x03707344), (0xC4923A9C, 0x483DF7A0)),
]


@pytest.mark.parametrize("counter, key, wanted", KNOWN_ANSWERS)
def test_threefry_gives_the_published_answers(counter, key, wanted):
    def words(pair):
        return tuple(tf.constant(x, tf.uint32) for x in pair)

    answer = randomness.threefry(words(key), words(counter))
    assert tuple(int(x) for x in answer) == wanted


def test_threefry_gives_in_a_graph_what_it_gives_eagerly():
    eager = uniform(1, 2, 0, tf.range(3), 5)
    graph = tf.function(lambda step, rows: uniform(1, step, 0, rows, 5))
    np.testing.assert_array_equal(graph(tf.constant(2, tf.int64), tf.range(3)), eager)


@pytest.mark.parametrize(
    "bits, lowest", [(0, 2.0**-24), (0xFFFFFFFF, 1 - 2.0**-24)], ids=["zero", "ones"]
)
def test_the_extreme_bits_give_numbers_inside_the_open_interval(
    monkeypatch, bits, lowest
):
    def constant(key, counter):
        return [tf.zeros_like(counter[0]) + tf.constant(bits, tf.uint32)] * 2

    monkeypatch.setattr(randomness, "threefry", constant)
    number = uniform(0, 0, 0, [0], 1).numpy().item()
    assert number == lowest and 0 < number < 1


def test_numbers_are_uniform():
    numbers = uniform(7, 3, 0, tf.range(200), 1000).numpy().ravel()
    assert 0 < numbers.min() and numbers.max() < 1
    counts, _ = np.histogram(numbers, bins=100, range=(0, 1))
    assert stats.chisquare(counts).pvalue > 1e-3


def test_a_row_gets_the_same_numbers_whatever_batch_it_is_in():
    whole = uniform(7, 3, 0, tf.range(8), 6)
    np.testing.assert_array_equal(uniform(7, 3, 0, [5], 6)[0], whole[5])
    np.testing.assert_array_equal(uniform(7, 3, 0, [6, 1], 6), tf.gather(whole, [6, 1]))


def test_a_column_gets_the_same_numbers_however_many_are_drawn():
    np.testing.assert_array_equal(
        uniform(7, 3, 0, [4], 3), uniform(7, 3, 0, [4], 9)[:, :3]
    )


def test_seeds_steps_streams_and_rows_all_give_numbers_of_their_own():
    base = dict(seed=7, step=3, stream=0, rows=[0], columns=50)
    others = [
        dict(seed=8),
        dict(step=4),
        dict(seed=3, step=7),
        dict(stream=randomness.KEEP_OR_MASK),
        dict(stream=randomness.SAMPLED_IDS),
        dict(stream=randomness.UNIFORM_IDS),
        dict(rows=[1]),
    ]
    draws = [uniform(**(base | other)).numpy().ravel() for other in [{}, *others]]
    numbers = np.concatenate(draws)
    assert len(set(numbers)) >= numbers.size - 1  # 400 of 2^23: chance repeats are rare


def test_streams_and_neighbouring_steps_are_uncorrelated():
    def draw(step, stream):
        return uniform(7, step, stream, tf.range(100), 100).numpy().ravel()

    pairs = np.corrcoef([draw(3, 0), draw(3, 1), draw(3, 2), draw(4, 0)])
    assert np.abs(pairs - np.eye(4)).max() < 0.04  # four deviations of 10^4 pairs


@pytest.mark.parametrize("seed", [0, 2**31, 2**32 - 1])
def test_any_seed_of_32_bits_is_a_seed_of_its_own(seed):
    numbers = uniform(seed, 0, 0, [0], 20).numpy()
    assert np.isfinite(numbers).all()
    assert not np.array_equal(numbers, uniform(seed ^ 1, 0, 0, [0], 20))
