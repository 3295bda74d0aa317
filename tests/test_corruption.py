"""Sampling follows the softmax; corruption writes samples, and labels what changed."""

import numpy as np
import pytest
import recorded
import tensorflow as tf
from scipy import special, stats

from electra_tf.pretraining import corruption, randomness
from electra_tf.pretraining.corruption import corrupt, invert, sample, scatter_update

CLS, SEP, PAD = 2, 3, 0


def draw(logits, n, *, seed=1, **options):
    """n samples from one row of logits."""
    noise = randomness.uniform(seed, 0, randomness.SAMPLED_IDS, tf.range(n), 2)
    logits = tf.convert_to_tensor(logits)
    logits = tf.broadcast_to(logits, [n, logits.shape[-1]])
    if "disallowed_ids" in options:
        options["disallowed_ids"] = tf.fill([n], options["disallowed_ids"])
    return sample(logits, noise, **options).numpy()


def fits(samples, probabilities):
    """Whether a chi-squared test accepts that the samples have these probabilities."""
    expected = np.asarray(probabilities, np.float64) * len(samples)
    counts = np.bincount(samples, minlength=len(expected))
    assert len(counts) == len(expected)
    assert not counts[expected == 0].any(), "sampled what has no mass"
    rare = expected < 10
    if rare.any():  # one cell of them all
        counts = np.append(counts[~rare], counts[rare].sum())
        expected = np.append(expected[~rare], expected[rare].sum())
    counts, expected = counts[expected > 0], expected[expected > 0]
    if len(expected) < 2:
        return True
    expected *= counts.sum() / expected.sum()
    return stats.chisquare(counts, expected).pvalue > 1e-3


LOGITS = np.array([0.0, 1.0, -1.0, 2.0, 0.5], np.float32)


def test_the_first_draw_picks_the_block_and_the_second_the_token_in_it():
    # Six tokens in blocks of 2: masses (1 1) (4 2) (0 8), so 2, 6 and 8 of 16.
    logits = np.log(np.array([1, 1, 4, 2, 1e-30, 8], np.float32))
    draws = [[0.1, 0.4], [0.1, 0.6], [0.2, 0.6], [0.4, 0.7], [0.6, 0.01], [0.9, 0.99]]
    samples = sample(tf.constant([logits] * 6), tf.constant(draws))
    np.testing.assert_array_equal(samples, [0, 1, 2, 3, 5, 5])


def test_the_index_passes_the_share_of_the_running_sum():
    mass = tf.constant([[0.0, 2.0, 0.0, 1.0, 1.0, 0.0]] * 4)
    index = invert(mass, tf.constant([1e-7, 0.49, 0.51, 1 - 1e-7]))
    np.testing.assert_array_equal(index, [1, 1, 3, 4])


def test_no_index_of_zero_mass_is_found_where_rounding_gives_the_whole_sum():
    mass = tf.constant([[1.0, 1e-30, 0.0, 0.0]])
    for share in (1 - 2.0**-24, 1.0):  # 1.0 is never drawn, but products may round up
        assert int(invert(mass, tf.constant([share]))[0]) == 0


@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
def test_samples_follow_the_softmax_at_any_temperature(temperature):
    samples = draw(LOGITS, 100_000, temperature=temperature)
    assert fits(samples, special.softmax(LOGITS / temperature))


def test_a_disallowed_token_is_never_sampled_and_the_rest_keep_their_shares():
    samples = draw(LOGITS, 100_000, disallowed_ids=3)
    assert 3 not in samples
    assert fits(samples, special.softmax(np.where(np.arange(5) == 3, -np.inf, LOGITS)))


@pytest.mark.parametrize("vocab_size", [1, 2, 3, 5, 8, 10, 17, 50, 101])
def test_vocabularies_of_any_size_are_sampled_to_their_last_token(vocab_size):
    logits = np.linspace(-1, 1, vocab_size).astype(np.float32)  # the last leads
    samples = draw(logits, 50_000)
    assert samples.max() == vocab_size - 1
    assert fits(samples, special.softmax(logits))


@pytest.mark.parametrize("dtype", [tf.float32, tf.bfloat16, tf.float16])
def test_logits_of_half_precision_are_sampled_in_float32(dtype):
    logits = tf.cast(LOGITS, dtype)  # all of them exact in half precision
    np.testing.assert_array_equal(draw(logits, 10_000), draw(LOGITS, 10_000))


def test_rare_tokens_of_a_large_vocabulary_keep_their_probability():
    # 0.95 on token 0 and 0.05 spread over 30,000. Next to the whole sum, each of these
    # would be rounded to a multiple of 2^-24; next to its block's, hardly.
    logits = np.zeros(30_001, np.float32)
    logits[0] = np.log(30_000 * 19)
    samples = np.concatenate([draw(logits, 4000, seed=s) for s in range(3)])
    rare = samples[samples > 0]
    assert stats.binomtest(len(rare), len(samples), 0.05).pvalue > 1e-3
    assert stats.kstest(rare / 30_000, "uniform").pvalue > 1e-3


def test_a_million_draws_stay_in_the_vocabulary():
    counts = np.zeros(11, int)
    for seed in range(5):
        samples = draw(np.linspace(-2, 2, 11).astype(np.float32), 250_000, seed=seed)
        assert samples.min() >= 0
        counts += np.bincount(samples, minlength=11)
    assert counts.sum() == 1_250_000
    expected = special.softmax(np.linspace(-2, 2, 11)) * counts.sum()
    assert stats.chisquare(counts, expected).pvalue > 1e-3


@pytest.mark.parametrize("dtype", [tf.float32, tf.bfloat16])
def test_extreme_logits_neither_overflow_nor_sample_what_has_no_mass(dtype):
    logits = tf.cast([-1e4, 1e4, -1e4, 1e4, 0.0, 1e4, -1e4], dtype)
    assert fits(draw(logits, 100_000), [0, 1 / 3, 0, 1 / 3, 0, 1 / 3, 0])
    assert fits(draw(tf.cast([-1e4] * 4, dtype), 10_000), [0.25] * 4)


def test_minus_infinity_is_never_sampled():
    assert set(draw(np.float32([-np.inf, 0.0, -np.inf, 0.0, -np.inf]), 10_000)) == {
        1,
        3,
    }


def test_the_extreme_draws_give_the_first_and_last_token_with_mass():
    logits = tf.constant([[-1e4, 0.0, 0.0, 0.0, 0.0, 0.0, -1e4]] * 2)
    ends = [[2.0**-24] * 2, [1 - 2.0**-24] * 2]
    np.testing.assert_array_equal(sample(logits, tf.constant(ends)), [1, 5])


def test_no_gradient_flows_through_a_sample():
    logits = tf.Variable([LOGITS])
    with tf.GradientTape() as tape:
        samples = sample(logits, tf.constant([[0.3, 0.3]]))
        value = tf.reduce_sum(tf.cast(samples, tf.float32))
    assert tape.gradient(value, logits) is None


@pytest.mark.golden
@pytest.mark.parametrize("kind", ["", "_temperature", "_disallow"])
def test_samples_have_the_recorded_probabilities(golden, kind):
    sampling = recorded.read_json(golden, "masking_stats.json")["sampling"]
    for row, logits in enumerate(np.array(sampling["logits"], np.float32)):
        options = {}
        if kind == "_temperature":
            options["temperature"] = sampling["temperature"]
        if kind == "_disallow":
            options["disallowed_ids"] = int(np.argmax(sampling["disallow"][row]))
        samples = draw(logits, 100_000, seed=row, **options)
        assert fits(samples, sampling[f"softmax{kind}"][row])
        theirs = np.rint(np.array(sampling[f"freq{kind}"][row]) * sampling["n_draws"])
        table = np.stack([np.bincount(samples, minlength=len(theirs)), theirs])
        table = table[:, table.sum(0) > 30]
        assert stats.chi2_contingency(table).pvalue > 1e-3


def test_a_lucky_guess_counts_as_original():
    corrupted, is_replaced = corrupt(
        tf.constant([[CLS, 11, 12, 13, SEP, PAD]]),
        masked_lm_positions=tf.constant([[1, 3, 0]]),  # the last entry is padding
        masked_lm_weights=tf.constant([[1.0, 1.0, 0.0]]),
        sampled_ids=tf.constant([[11, 99, 77]]),  # 11 is what was there
    )
    np.testing.assert_array_equal(corrupted, [[CLS, 11, 12, 99, SEP, PAD]])
    np.testing.assert_array_equal(is_replaced, [[0, 0, 0, 1, 0, 0]])


def test_an_unused_slot_does_not_write_even_where_a_used_one_does():
    corrupted, is_replaced = corrupt(
        tf.constant([[11, 12, 13]]),
        masked_lm_positions=tf.constant([[0, 0]]),
        masked_lm_weights=tf.constant([[1.0, 0.0]]),
        sampled_ids=tf.constant([[20, 77]]),
    )
    np.testing.assert_array_equal(corrupted, [[20, 12, 13]])
    np.testing.assert_array_equal(is_replaced, [[1, 0, 0]])


def test_two_samples_for_one_position_leave_one_of_them_and_never_their_mean():
    corrupted, _ = corrupt(
        tf.constant([[CLS, 11, 12, SEP]]),
        masked_lm_positions=tf.constant([[1, 1]]),
        masked_lm_weights=tf.ones([1, 2]),
        sampled_ids=tf.constant([[100, 300]]),
    )
    assert corrupted[0, 1] in (100, 300)


def test_token_0_can_be_written():
    corrupted, is_replaced = corrupt(
        tf.constant([[CLS, 11, SEP]]),
        masked_lm_positions=tf.constant([[1]]),
        masked_lm_weights=tf.ones([1, 1]),
        sampled_ids=tf.constant([[0]]),
    )
    np.testing.assert_array_equal(corrupted, [[CLS, 0, SEP]])
    np.testing.assert_array_equal(is_replaced, [[0, 1, 0]])


@pytest.mark.parametrize(
    "write", [corrupt, corruption.corrupt_like_the_original], ids=["ours", "original"]
)
def test_nothing_outside_the_chosen_positions_changes(write):
    random = np.random.default_rng(0)
    for _ in range(50):
        rows, length, n = random.integers(1, 5), random.integers(4, 20), 3
        ids = random.integers(5, 30, (rows, length)).astype(np.int32)
        ids[:, 0] = CLS
        positions = np.stack(
            [random.choice(np.arange(1, length), n, replace=False) for _ in ids]
        ).astype(np.int32)
        used = random.random((rows, n)) < 0.7
        positions *= used
        samples = random.integers(5, 30, (rows, n)).astype(np.int32)
        expected = ids.copy()
        for row in range(rows):
            expected[row, positions[row][used[row]]] = samples[row][used[row]]
        corrupted, is_replaced = write(
            tf.constant(ids),
            tf.constant(positions),
            tf.constant(used.astype(np.float32)),
            tf.constant(samples),
        )
        np.testing.assert_array_equal(corrupted, expected)
        np.testing.assert_array_equal(is_replaced, expected != ids)


def test_scatter_update_leaves_position_0_and_averages_repeats_rounding_down():
    updated, mask = scatter_update(
        tf.constant([[11, 12, 13, 14]]),
        updates=tf.constant([[50, 100, 301, 60]]),
        positions=tf.constant([[0, 2, 2, 3]]),
    )
    np.testing.assert_array_equal(updated, [[11, 12, 200, 60]])
    np.testing.assert_array_equal(mask, [[0, 0, 1, 1]])


def test_the_original_sampling_takes_the_largest_of_logits_plus_gumbel_noise():
    noise = np.full((1, 3), 0.5, np.float32)
    noise[0, 1] = 0.9  # -log(-log(.9)) = 2.25, -log(-log(.5)) = 0.37
    one = corruption.sample_like_the_original(tf.constant([[1.0, 0.0, 0.0]]), noise)
    assert one.numpy() == [1]
    two = corruption.sample_like_the_original(tf.constant([[2.0, 0.0, 0.0]]), noise)
    assert two.numpy() == [0]
