"""The two losses, each as (sum over the predicted tokens, number of these tokens).

Whoever consumes a loss divides, once, by the weights of the global batch. In float32.
"""

import tensorflow as tf


def masked_lm(logits, masked_lm_ids, masked_lm_weights):
    """-log p_G(x_i | x_masked), summed over the chosen positions (paper, L_MLM).

    Shapes:
        logits: float32 [batch, num_positions, vocab_size]
        masked_lm_ids, masked_lm_weights: [batch, num_positions]
        returns: (total, weight), and the loss per slot [batch, num_positions]
    """
    per_slot = tf.nn.sparse_softmax_cross_entropy_with_logits(masked_lm_ids, logits)
    total = tf.reduce_sum(per_slot * masked_lm_weights)
    return (total, tf.reduce_sum(masked_lm_weights)), per_slot


def replaced_token_detection(logits, is_replaced, input_mask):
    """Binary cross-entropy over all tokens that aren't padding (paper, L_Disc).

    Shapes:
        logits: float32 [batch, seq_len]
        is_replaced, input_mask: int [batch, seq_len]
        returns: (total, weight), and the loss per token [batch, seq_len], 0 at padding
    """
    weights = tf.cast(input_mask, tf.float32)
    per_token = weights * tf.nn.sigmoid_cross_entropy_with_logits(
        labels=tf.cast(is_replaced, tf.float32), logits=logits
    )
    return (tf.reduce_sum(per_token), tf.reduce_sum(weights)), per_token
