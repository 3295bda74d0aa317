"""A loss is a sum and a number of tokens; padding and unused slots add to neither."""

import numpy as np
import pytest
import tensorflow as tf

from electra_tf.pretraining.losses import masked_lm, replaced_token_detection


def test_masked_lm_is_minus_log_probability_at_the_used_slots():
    logits = np.log([[[0.5, 0.25, 0.25], [0.1, 0.1, 0.8], [0.2, 0.2, 0.6]]])
    (total, weight), per_slot = masked_lm(
        tf.constant(logits, tf.float32),
        tf.constant([[1, 2, 0]]),
        tf.constant([[1.0, 1.0, 0.0]]),
    )
    np.testing.assert_allclose(per_slot, [-np.log([0.25, 0.8, 0.2])], rtol=1e-6)
    assert float(total) == pytest.approx(-np.log(0.25) - np.log(0.8))
    assert float(weight) == 2


def test_masked_lm_of_a_know_nothing_network_is_ln_of_the_vocabulary():
    (total, weight), _ = masked_lm(
        tf.zeros([2, 3, 50]), tf.zeros([2, 3], tf.int32), tf.ones([2, 3])
    )
    assert float(total / weight) == pytest.approx(np.log(50))


def test_replaced_token_detection_is_binary_cross_entropy_over_real_tokens():
    logits = np.array([[0.0, 2.0, -1.0, 9.0]], np.float32)
    (total, weight), per_token = replaced_token_detection(
        tf.constant(logits),
        is_replaced=tf.constant([[0, 1, 0, 1]]),
        input_mask=tf.constant([[1, 1, 1, 0]]),
    )
    # -log(1 - sigmoid(0)), -log sigmoid(2), -log(1 - sigmoid(-1)), padding
    expected = [np.log(2), np.log1p(np.exp(-2)), np.log1p(np.exp(-1)), 0]
    np.testing.assert_allclose(per_token, [expected], rtol=1e-6)
    assert float(total) == pytest.approx(sum(expected))
    assert float(weight) == 3


@pytest.mark.parametrize("dtype", [tf.int32, tf.bool, tf.float32])
def test_the_mask_may_be_of_any_type(dtype):
    mask = tf.cast([[1, 1, 0]], dtype)
    (total, weight), _ = replaced_token_detection(
        tf.zeros([1, 3]), tf.zeros([1, 3], tf.int32), mask
    )
    assert float(total) == pytest.approx(2 * np.log(2)) and float(weight) == 2


def test_extreme_logits_give_finite_losses_and_gradients():
    logits = tf.Variable([[1e4, -1e4, 1e4, -1e4]])
    with tf.GradientTape() as tape:
        (total, _), per_token = replaced_token_detection(
            logits, tf.constant([[1, 0, 0, 1]]), tf.ones([1, 4], tf.int32)
        )
    np.testing.assert_allclose(per_token, [[0, 0, 1e4, 1e4]])
    np.testing.assert_allclose(tape.gradient(total, logits), [[0, 0, 1, -1]])
    (total, _), _ = masked_lm(
        tf.constant([[[1e4, -1e4]]]), tf.constant([[1]]), tf.ones([1, 1])
    )
    assert float(total) == 2e4


def test_losses_of_two_halves_add_up_to_the_loss_of_the_batch():
    random = np.random.default_rng(0)
    logits = random.normal(size=(4, 5)).astype(np.float32)
    labels, mask = random.integers(0, 2, (2, 4, 5)).astype(np.int32)
    whole, _ = replaced_token_detection(logits, labels, mask)
    halves = [
        replaced_token_detection(logits[s], labels[s], mask[s])[0]
        for s in (slice(0, 1), slice(1, 4))
    ]
    np.testing.assert_allclose(np.sum(halves, 0), whole, rtol=1e-6)
    slots = random.normal(size=(4, 3, 7)).astype(np.float32)
    ids = random.integers(0, 7, (4, 3)).astype(np.int32)
    weights = random.integers(0, 2, (4, 3)).astype(np.float32)
    whole, _ = masked_lm(slots, ids, weights)
    halves = [
        masked_lm(slots[s], ids[s], weights[s])[0] for s in (slice(0, 1), slice(1, 4))
    ]
    np.testing.assert_allclose(np.sum(halves, 0), whole, rtol=1e-6)


def test_filling_rows_add_neither_loss_nor_weight():
    logits, labels = tf.constant([[1.0, -2.0]]), tf.constant([[0, 1]])
    alone, _ = replaced_token_detection(logits, labels, tf.ones([1, 2], tf.int32))
    filled, _ = replaced_token_detection(
        tf.concat([logits, [[7.0, 7.0]]], 0),
        tf.concat([labels, [[0, 0]]], 0),
        tf.constant([[1, 1], [0, 0]]),
    )
    np.testing.assert_array_equal(alone, filled)
