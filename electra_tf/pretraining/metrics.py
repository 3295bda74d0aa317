"""Metrics of pre-training, each as (total, weight): add over batches, then `result`.

The names are the original's. Two of them are not what they seem: `disc_precision` is
the accuracy among the tokens called replaced and `disc_recall` the accuracy among the
replaced ones, which are indeed precision and recall. `disc_auc` is kept as two
histograms of the predicted probabilities, one of the replaced and one of the original
tokens, so that it adds up like the others.
"""

import numpy as np
import tensorflow as tf

NUM_THRESHOLDS = 200
# The thresholds of tf.metrics.auc, which the original used.
THRESHOLDS = np.array(
    [-1e-7, *((i + 1) / (NUM_THRESHOLDS - 1) for i in range(NUM_THRESHOLDS - 2))]
    + [1 + 1e-7],
    np.float32,
)


def accuracy(labels, predictions, weights):
    correct = tf.cast(labels == predictions, tf.float32)
    weights = tf.cast(weights, tf.float32)
    return tf.reduce_sum(correct * weights), tf.reduce_sum(weights)


def masked_lm_metrics(outputs):
    """Accuracy and loss of the generator over the chosen positions."""
    masked = outputs["masked_inputs"]
    weights = masked.masked_lm_weights
    return {
        "masked_lm_accuracy": accuracy(
            masked.masked_lm_ids, outputs["mlm_predictions"], weights
        ),
        "masked_lm_loss": (
            tf.reduce_sum(outputs["mlm_per_slot_loss"] * weights),
            tf.reduce_sum(weights),
        ),
    }


def discriminator_metrics(outputs, count_padding=False):
    """How well the discriminator finds the replaced tokens.

    `count_padding` counts padding as correctly found originals in `disc_auc`, as the
    original did.
    """
    masked = outputs["masked_inputs"]
    mask = tf.cast(masked.input_mask, tf.int32)
    labels, logits = outputs["is_replaced"], outputs["disc_logits"]
    predictions = outputs["disc_predictions"]
    per_row = tf.reduce_sum(outputs["disc_per_token_loss"], -1)
    length = tf.reduce_sum(tf.cast(mask, tf.float32), -1)
    rows = tf.cast(length > 0, tf.float32)  # a padding row is no example
    probs = tf.sigmoid(logits) * tf.cast(mask, tf.float32)
    return {
        "sampled_masked_lm_accuracy": accuracy(
            masked.masked_lm_ids, outputs["sampled_ids"], masked.masked_lm_weights
        ),
        "disc_loss": (
            tf.reduce_sum(per_row / (length + 1e-6) * rows),
            tf.reduce_sum(rows),
        ),
        "disc_auc": histograms(
            labels * mask, probs, tf.ones_like(mask) if count_padding else mask
        ),
        "disc_accuracy": accuracy(labels, predictions, mask),
        "disc_precision": accuracy(labels, predictions, predictions * mask),
        "disc_recall": accuracy(labels, predictions, labels * mask),
        "disc_replaced_share": (
            tf.reduce_sum(tf.cast(labels * mask, tf.float32)),
            tf.reduce_sum(tf.cast(mask, tf.float32)),
        ),
    }


def histograms(labels, probs, weights):
    """Counts replaced and original tokens by the thresholds that they exceed.

    Shapes:
        labels, probs, weights: [batch, seq_len]
        returns: two float32 [NUM_THRESHOLDS + 1]
    """
    bucket = tf.searchsorted(THRESHOLDS, tf.reshape(probs, [-1]), side="left")
    positive = tf.cast(tf.reshape(labels, [-1]) > 0, tf.float32)
    weights = tf.cast(tf.reshape(weights, [-1]), tf.float32)
    counts = tf.stack([positive, 1.0 - positive], -1) * weights[:, None]
    counts = tf.math.unsorted_segment_sum(counts, bucket, NUM_THRESHOLDS + 1)
    return counts[:, 0], counts[:, 1]


def auc(replaced, original):
    """Area under the ROC curve from two histograms, as tf.metrics.auc adds it up."""
    above = [np.cumsum(np.asarray(h, np.float64)[::-1])[::-1][1:] for h in
             (replaced, original)]  # fmt: skip
    recall = (above[0] + 1e-6) / (np.sum(replaced) + 1e-6)
    fall_out = above[1] / (np.sum(original) + 1e-6)
    return float(
        np.sum((fall_out[:-1] - fall_out[1:]) * (recall[:-1] + recall[1:]) / 2)
    )


def result(total, weight):
    """The value of one metric from its summed total and weight."""
    total, weight = np.asarray(total, np.float64), np.asarray(weight, np.float64)
    if total.ndim:
        return auc(total, weight)
    return float(total / weight) if weight else 0.0


def results(sums):
    """Values of all metrics, and the majority baseline beside the accuracy."""
    values = {name: result(*pair) for name, pair in sums.items()}
    if "disc_replaced_share" in sums:
        replaced, tokens = (np.asarray(x) for x in sums["disc_replaced_share"])
        values["disc_majority_accuracy"] = result(
            np.maximum(replaced, tokens - replaced), tokens
        )
    return values
