"""Samples replacements from the generator, writes them, labels what changed.

x_hat_i ~ p_G(. | x_masked) at the chosen positions (paper, eq. 1); a sample that equals
the original token counts as original. No gradient flows through the samples.
"""

import tensorflow as tf

from electra_tf.pretraining.masking import batch_indices

DISALLOWED = 1000.0  # what disallow_correct takes from the original token's logit


def sample(logits, draws, *, temperature=1.0, disallowed_ids=None):
    """Samples from softmax(logits / temperature), in float32, by inverting its CDF.

    In two levels: a block of about sqrt(vocab_size) tokens, then a token of the block.
    That costs one exponential and one sum over the vocabulary and two random numbers a
    sample, where the original's Gumbel noise takes one random number and two logarithms
    a token; and rounding stays relative to the block, so that rare tokens keep their
    probability.

    Args:
        disallowed_ids: int32 [...], tokens that may not be drawn, or None
    Shapes:
        logits: float [..., vocab_size]
        draws: float32 [..., 2], from the open interval (0, 1)
        returns: int32 [...]
    """
    vocab_size = logits.shape[-1]
    logits = tf.stop_gradient(tf.cast(logits, tf.float32)) / temperature
    if disallowed_ids is not None:
        logits -= DISALLOWED * tf.one_hot(disallowed_ids, vocab_size)
    logits -= tf.reduce_max(logits, -1, keepdims=True)
    width = int(vocab_size**0.5)
    blocks = -(-vocab_size // width)
    lead = tf.shape(draws)[:-1]
    flat = tf.reshape(tf.exp(logits), [-1, vocab_size])
    flat = tf.pad(flat, [[0, 0], [0, blocks * width - vocab_size]])
    mass = tf.reshape(flat, [-1, blocks, width])
    draws = tf.reshape(draws, [-1, 2])
    block = invert(tf.reduce_sum(mass, -1), draws[:, 0])
    token = invert(tf.gather(mass, block, batch_dims=1), draws[:, 1])
    return tf.reshape(block * width + token, lead)


def invert(mass, draw):
    """Index at which the running sum of `mass` passes the share `draw` of its total.

    Never an index of zero mass, whatever the rounding.

    Shapes:
        mass: float32 [n, k], not negative; draw: float32 [n]; returns int32 [n]
    """
    running = tf.cumsum(mass, axis=-1)
    passed = running <= (running[:, -1] * draw)[:, None]
    index = tf.reduce_sum(tf.cast(passed & (running < running[:, -1:]), tf.int32), -1)
    return index


def sample_like_the_original(logits, noise, *, temperature=1.0, disallowed_ids=None):
    """The original's Gumbel sampling, for compat="original".

    Shapes:
        logits: float [..., vocab_size]; noise: float32 of that shape, from [0, 1)
        returns: int32 [...]
    """
    logits = tf.stop_gradient(tf.cast(logits, tf.float32)) / temperature
    if disallowed_ids is not None:
        logits -= DISALLOWED * tf.one_hot(disallowed_ids, logits.shape[-1])
    gumbel = -tf.math.log(-tf.math.log(noise + 1e-9) + 1e-9)
    return tf.argmax(logits + gumbel, -1, output_type=tf.int32)


def corrupt(input_ids, masked_lm_positions, masked_lm_weights, sampled_ids):
    """Puts the sampled ids into the original input and labels the replaced tokens.

    Slots of weight 0 write nothing. If two slots name one position, the larger id
    wins: it is one of the samples, where the original wrote their mean.

    Shapes:
        input_ids: int32 [batch, seq_len]
        masked_lm_positions, masked_lm_weights, sampled_ids: [batch, num_positions]
        returns: corrupted ids int32 [batch, seq_len], is_replaced int32 of that shape
    """
    updates = tf.where(masked_lm_weights > 0, sampled_ids, -1)
    written = tf.tensor_scatter_nd_max(
        tf.fill(tf.shape(input_ids), -1), batch_indices(masked_lm_positions), updates
    )
    corrupted = tf.where(written >= 0, written, input_ids)
    return corrupted, tf.cast(corrupted != input_ids, tf.int32)


def scatter_update(sequence, updates, positions):
    """The original's scatter_update: position 0 stays; repeats get sum // count.

    Shapes:
        sequence: int32 [batch, seq_len]; updates, positions: int32 [batch, n]
        returns: updated int32 [batch, seq_len], and 1 where a position was updated
    """
    indices, shape = batch_indices(positions), tf.shape(sequence)
    total = tf.scatter_nd(indices, updates, shape)
    count = tf.scatter_nd(indices, tf.ones_like(updates), shape)
    updated = tf.cast(count > 0, tf.int32)
    updated *= tf.cast(tf.range(shape[1]) > 0, tf.int32)
    return tf.where(updated > 0, total // tf.maximum(count, 1), sequence), updated


def corrupt_like_the_original(
    input_ids, masked_lm_positions, masked_lm_weights, sampled_ids
):
    """`corrupt` for compat="original": repeated positions get the mean of their ids.

    Unused slots have position 0, which `scatter_update` leaves alone.
    """
    corrupted, _ = scatter_update(input_ids, sampled_ids, masked_lm_positions)
    return corrupted, tf.cast(corrupted != input_ids, tf.int32)
