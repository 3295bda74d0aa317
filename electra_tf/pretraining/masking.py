"""Chooses the positions to predict and writes [MASK] there (paper, section 2, eq. 1).

Dynamic: masks are drawn anew at each step, never stored in the records. 15% of the
tokens of a row are chosen; 85% of these become [MASK], the others stay as they are.
"""

import collections

import tensorflow as tf

from electra_tf.pretraining import randomness

KEEP_PROB = 0.15  # share of the chosen tokens that are left as they are

MaskedInputs = collections.namedtuple(
    "MaskedInputs",
    "input_ids masked_input_ids input_mask segment_ids "
    "masked_lm_positions masked_lm_ids masked_lm_weights",
)


def num_to_predict(input_mask, mask_prob, max_predictions_per_seq):
    """How many tokens of each row to predict: max(1, min(N, round(p * length))).

    Length counts [CLS] and [SEP]; in float32, half to even, as the original rounds.

    Shapes:
        input_mask: int [batch, seq_len]; returns int32 [batch]
    """
    length = tf.cast(tf.reduce_sum(input_mask, -1), tf.float32)
    wanted = tf.cast(tf.round(length * mask_prob), tf.int32)
    return tf.maximum(1, tf.minimum(max_predictions_per_seq, wanted))


def candidates(input_ids, input_mask, special_ids):
    """Positions that may be chosen: no padding, no special token but [UNK].

    Shapes:
        input_ids, input_mask: int [batch, seq_len]; returns bool [batch, seq_len]
    """
    allowed = tf.cast(input_mask, tf.bool)
    for special_id in special_ids:
        allowed &= input_ids != special_id
    return allowed


def choose_positions(allowed, count, num_positions, noise):
    """Chooses `count` distinct positions of each row, uniformly.

    Shapes:
        allowed: bool [batch, seq_len]
        count: int32 [batch]
        noise: float [batch, seq_len], independent draws from (0, 1)
        returns: positions int32 [batch, num_positions], weights float32 (1 where the
            slot is used); an unused slot has position 0 and weight 0
    """
    score = tf.where(allowed, noise, 0.0)
    top, positions = tf.math.top_k(score, num_positions)
    count = tf.minimum(count, tf.reduce_sum(tf.cast(allowed, tf.int32), -1))
    used = (tf.range(num_positions) < count[:, None]) & (top > 0)
    return tf.where(used, positions, 0), tf.cast(used, tf.float32)


def choose_positions_with_replacement(allowed, count, num_positions, noise):
    """The original's way, for compat="original": independent draws, which repeat.

    Shapes: as in `choose_positions`, with noise [batch, num_positions]
    """
    total = tf.reduce_sum(tf.cast(allowed, tf.int32), -1)  # [B]
    rank = tf.cast(noise * tf.cast(total, tf.float32)[:, None], tf.int32)
    rank = tf.minimum(rank, total[:, None] - 1)  # the k-th allowed position
    order = tf.cumsum(tf.cast(allowed, tf.int32), axis=-1)  # 1 at the first allowed
    positions = tf.reduce_sum(
        tf.cast(order[:, None, :] <= rank[:, :, None], tf.int32), -1
    )  # [B, N]
    used = (tf.range(num_positions) < count[:, None]) & (total > 0)[:, None]
    return tf.where(used, positions, 0), tf.cast(used, tf.float32)


def write_mask(input_ids, positions, weights, draws, mask_id):
    """Puts `mask_id` at the chosen positions, save for the 15% that stay.

    A position that was drawn several times is masked if any of its draws says so.

    Shapes:
        input_ids: int [batch, seq_len]
        positions, weights: [batch, num_positions]
        draws: float [batch, num_positions], from (0, 1); a slot masks if below 0.85
        returns: int32 [batch, seq_len]
    """
    masks = (weights > 0) & (draws < 1 - KEEP_PROB)
    hit = tf.scatter_nd(
        batch_indices(positions), tf.cast(masks, tf.int32), tf.shape(input_ids)
    )
    return tf.where(hit > 0, mask_id, input_ids)


def batch_indices(positions):
    """Indices [batch, num_positions, 2] of (row, position), for scatter."""
    rows = tf.range(tf.shape(positions)[0])[:, None] + tf.zeros_like(positions)
    return tf.stack([rows, positions], -1)


def gather_masked(batch, positions, weights, masked_input_ids):
    """Assembles MaskedInputs; the labels are the ids before masking."""
    input_ids = batch["input_ids"]
    masked_lm_ids = tf.gather(input_ids, positions, batch_dims=1)
    return MaskedInputs(
        input_ids=input_ids,
        masked_input_ids=masked_input_ids,
        input_mask=batch["input_mask"],
        segment_ids=batch["segment_ids"],
        masked_lm_positions=positions,
        masked_lm_ids=masked_lm_ids * tf.cast(weights, masked_lm_ids.dtype),
        masked_lm_weights=weights,
    )


def mask(
    batch,
    rows,
    *,
    seed,
    step,
    mask_id,
    special_ids,
    mask_prob,
    max_predictions_per_seq,
    with_replacement=False,
):
    """Masks a batch, as a function of (seed, step, global row).

    Shapes:
        batch: dict of input_ids, input_mask, segment_ids, int32 [batch, seq_len]
        rows: int32 [batch], each example's row in the global batch
        returns: MaskedInputs
    """
    input_ids, n = batch["input_ids"], max_predictions_per_seq
    allowed = candidates(input_ids, batch["input_mask"], special_ids)
    count = num_to_predict(batch["input_mask"], mask_prob, n)
    choose, width = choose_positions, input_ids.shape[1]
    if with_replacement:
        choose, width = choose_positions_with_replacement, n
    noise = randomness.uniform(seed, step, randomness.MASKED_POSITIONS, rows, width)
    positions, weights = choose(allowed, count, n, noise)
    draws = randomness.uniform(seed, step, randomness.KEEP_OR_MASK, rows, n)
    masked_input_ids = write_mask(input_ids, positions, weights, draws, mask_id)
    return gather_masked(batch, positions, weights, masked_input_ids)
