"""Metrics are sums and weights that add over batches, with their published names."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from electra_tf.pretraining import losses, metrics
from electra_tf.pretraining.masking import MaskedInputs


def outputs_of(logits, is_replaced, input_mask, *, slots=None):
    """What an objective hands to its metrics, from a discriminator's verdicts."""
    logits = tf.constant(logits, tf.float32)
    is_replaced = tf.constant(is_replaced, tf.int32)
    input_mask = tf.constant(input_mask, tf.int32)
    rows = logits.shape[0]
    slots = slots or {}
    masked = MaskedInputs(
        input_ids=None,
        masked_input_ids=None,
        input_mask=input_mask,
        segment_ids=None,
        masked_lm_positions=None,
        masked_lm_ids=tf.constant(slots.get("ids", [[0]] * rows)),
        masked_lm_weights=tf.constant(slots.get("weights", [[0.0]] * rows)),
    )
    _, per_token = losses.replaced_token_detection(logits, is_replaced, input_mask)
    return {
        "masked_inputs": masked,
        "sampled_ids": tf.constant(slots.get("sampled", [[0]] * rows)),
        "mlm_predictions": tf.constant(slots.get("predicted", [[0]] * rows)),
        "mlm_per_slot_loss": tf.constant(slots.get("losses", [[0.0]] * rows)),
        "is_replaced": is_replaced,
        "disc_logits": logits,
        "disc_predictions": tf.cast(logits > 0, tf.int32),
        "disc_per_token_loss": per_token,
    }


def values(outputs, **options):
    return metrics.results(metrics.discriminator_metrics(outputs, **options))


def random_outputs(rows, seed=0, length=12):
    random = np.random.default_rng(seed)
    logits = random.normal(size=(rows, length), scale=2)
    labels = (random.normal(size=logits.shape) + logits > 2).astype(int)
    mask = (np.arange(length) < random.integers(4, length, (rows, 1))).astype(int)
    return outputs_of(logits, labels * mask, mask)


def test_accuracy_precision_and_recall_of_a_hand_counted_example():
    # two true finds, one false alarm, one miss, two quiet originals, one padding
    found = values(
        outputs_of(
            [[1.0, 2.0, 3.0, -1.0, -2.0, -3.0, 9.0]],
            [[1, 1, 0, 1, 0, 0, 0]],
            [[1, 1, 1, 1, 1, 1, 0]],
        )
    )
    assert found["disc_accuracy"] == pytest.approx(4 / 6)
    assert found["disc_precision"] == pytest.approx(2 / 3)
    assert found["disc_recall"] == pytest.approx(2 / 3)
    assert found["disc_replaced_share"] == pytest.approx(3 / 6)
    assert found["disc_majority_accuracy"] == pytest.approx(3 / 6)


def test_disc_loss_is_the_mean_of_the_means_of_rows():
    found = values(outputs_of([[0.0, 0.0], [100.0, 5.0]], [[0, 1], [0, 0]],
                              [[1, 1], [1, 0]]))  # fmt: skip
    assert found["disc_loss"] == pytest.approx((np.log(2) + 100) / 2, rel=1e-5)


def test_generator_metrics_count_slots_by_their_weight():
    outputs = outputs_of(
        [[0.0]],
        [[0]],
        [[1]],
        slots=dict(
            ids=[[7, 8, 9, 0]],
            weights=[[1.0, 1.0, 1.0, 0.0]],
            predicted=[[7, 8, 1, 0]],
            sampled=[[7, 1, 1, 0]],  # equal in the unused slot, which counts nothing
            losses=[[1.0, 2.0, 6.0, 50.0]],
        ),
    )
    found = metrics.results(metrics.masked_lm_metrics(outputs))
    assert found["masked_lm_accuracy"] == pytest.approx(2 / 3)
    assert found["masked_lm_loss"] == pytest.approx(3)
    assert values(outputs)["sampled_masked_lm_accuracy"] == pytest.approx(1 / 3)


def test_the_accuracy_of_a_constant_0_predictor_is_the_majority_baseline():
    outputs = random_outputs(6)
    constant = outputs_of(
        np.full(outputs["is_replaced"].shape, -3.0),
        outputs["is_replaced"].numpy(),
        outputs["masked_inputs"].input_mask.numpy(),
    )
    found = values(constant)
    assert found["disc_replaced_share"] < 0.5
    assert found["disc_accuracy"] == found["disc_majority_accuracy"]
    assert found["disc_auc"] == pytest.approx(0.5, abs=1e-6)
    assert found["disc_recall"] == 0


def test_auc_is_1_for_a_perfect_ranking_and_0_for_the_reverse():
    labels, mask = [[0, 0, 1, 1]], [[1, 1, 1, 1]]
    perfect = values(outputs_of([[-3, -2, 2, 3]], labels, mask))["disc_auc"]
    reverse = values(outputs_of([[3, 2, -2, -3]], labels, mask))["disc_auc"]
    assert perfect == pytest.approx(1, abs=1e-5)
    assert reverse == pytest.approx(0, abs=1e-5)


def test_auc_of_a_hand_counted_example_is_the_share_of_ordered_pairs():
    # replaced at .9 and .4, originals at .6, .3 and .1: 5 of 6 pairs are in order
    probs = np.array([[0.9, 0.4, 0.6, 0.3, 0.1]])
    found = values(
        outputs_of(np.log(probs / (1 - probs)), [[1, 1, 0, 0, 0]], [[1] * 5])
    )
    assert found["disc_auc"] == pytest.approx(5 / 6, abs=1e-5)


@pytest.mark.parametrize("count_padding", [False, True])
def test_auc_equals_that_of_keras_with_200_thresholds(count_padding):
    outputs = random_outputs(40)
    mask = outputs["masked_inputs"].input_mask.numpy()
    probs = tf.sigmoid(outputs["disc_logits"]) * tf.cast(mask, tf.float32)
    reference = keras.metrics.AUC(num_thresholds=200)
    reference.update_state(
        tf.reshape(outputs["is_replaced"], [-1]),
        tf.reshape(probs, [-1]),
        None if count_padding else mask.reshape(-1).astype(np.float32),
    )
    found = values(outputs, count_padding=count_padding)["disc_auc"]
    assert found == pytest.approx(float(reference.result()), abs=1e-5)


def test_a_probability_counts_at_the_number_of_thresholds_that_it_exceeds():
    on = metrics.THRESHOLDS[5]  # exceeds the five below it, not itself
    probs = tf.constant([[0.0, 1.0, on, np.nextafter(on, np.float32(1))]])
    replaced, original = metrics.histograms(
        tf.constant([[0, 1, 0, 1]]), probs, tf.ones_like(probs)
    )
    assert set(np.flatnonzero(original)) == {1, 5}
    assert set(np.flatnonzero(replaced)) == {199, 6}


def test_padding_counts_as_found_originals_only_for_the_original():
    outputs = outputs_of(
        [[2.0, 1.0, -1.0, 9.0, 9.0]], [[0, 1, 0, 0, 0]], [[1, 1, 1, 0, 0]]
    )
    # One replaced token outranks 1 of 2 originals, or with padding 3 of 4.
    assert values(outputs)["disc_auc"] == pytest.approx(1 / 2, abs=1e-5)
    theirs = values(outputs, count_padding=True)["disc_auc"]
    assert theirs == pytest.approx(3 / 4, abs=1e-5)


def test_sums_of_two_batches_give_the_metrics_of_their_union():
    outputs = random_outputs(10)
    parts = []
    for rows in (slice(0, 3), slice(3, 10)):
        part = outputs_of(
            outputs["disc_logits"].numpy()[rows],
            outputs["is_replaced"].numpy()[rows],
            outputs["masked_inputs"].input_mask.numpy()[rows],
        )
        parts.append(metrics.discriminator_metrics(part))
    added = {
        name: tuple(a.numpy() + b.numpy() for a, b in zip(parts[0][name], pair))
        for name, pair in parts[1].items()
    }
    found = metrics.results(added)
    assert found == pytest.approx(values(outputs), rel=1e-5, nan_ok=False)


def test_filling_rows_change_no_metric():
    outputs = random_outputs(3)
    filled = outputs_of(
        np.pad(outputs["disc_logits"], [[0, 2], [0, 0]], constant_values=5.0),
        np.pad(outputs["is_replaced"], [[0, 2], [0, 0]]),
        np.pad(outputs["masked_inputs"].input_mask, [[0, 2], [0, 0]]),
    )
    assert values(filled) == pytest.approx(values(outputs), rel=1e-6)


def test_a_batch_of_nothing_has_metrics_of_0_and_not_nan():
    found = values(outputs_of([[1.0, 1.0]], [[0, 0]], [[0, 0]]))
    assert all(np.isfinite(v) for v in found.values())
    assert found["disc_accuracy"] == 0 and found["disc_loss"] == 0
