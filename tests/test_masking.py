"""Which positions are chosen, how many, and what is written there."""

import numpy as np
import pytest
import recorded
import tensorflow as tf
from scipy import stats

from electra_tf.pretraining import masking, randomness

PAD, UNK, CLS, SEP, MASK = range(5)
SPECIALS = (CLS, SEP, MASK)


def batch_of(rows):
    """A batch from lists of ids; 0 is padding."""
    input_ids = tf.constant(rows, tf.int32)
    return {
        "input_ids": input_ids,
        "input_mask": tf.cast(input_ids != PAD, tf.int32),
        "segment_ids": tf.zeros_like(input_ids),
    }


def mask(batch, rows=None, *, seed=1, step=0, n=3, mask_prob=0.15, **options):
    rows = tf.range(len(batch["input_ids"])) if rows is None else tf.constant(rows)
    return masking.mask(
        batch,
        rows,
        seed=seed,
        step=step,
        mask_id=MASK,
        special_ids=SPECIALS,
        mask_prob=mask_prob,
        max_predictions_per_seq=n,
        **options,
    )


def sentence(length, padding=0):
    return [CLS, *range(5, length + 3), SEP] + [PAD] * padding


def assert_equal(one, other):
    for name in one._fields:
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), name)


@pytest.mark.parametrize(
    "length, wanted", [(1, 1), (10, 2), (20, 3), (30, 4), (70, 10), (128, 19)]
)
def test_fifteen_percent_of_the_length_is_predicted_half_to_even(length, wanted):
    assert int(masking.num_to_predict(tf.ones([1, length]), 0.15, 19)[0]) == wanted


def test_a_row_predicts_at_least_one_token_and_at_most_the_maximum():
    lengths = tf.sequence_mask([1, 3, 100], 100)
    count = masking.num_to_predict(tf.cast(lengths, tf.int32), 0.15, 12)
    np.testing.assert_array_equal(count, [1, 1, 12])


def test_only_unk_of_the_special_tokens_may_be_chosen():
    batch = batch_of([[CLS, 9, UNK, MASK, 9, SEP, PAD]])
    allowed = masking.candidates(batch["input_ids"], batch["input_mask"], SPECIALS)
    np.testing.assert_array_equal(allowed, [[0, 1, 1, 0, 1, 0, 0]])


def test_the_largest_draws_of_the_allowed_positions_are_chosen():
    positions, weights = masking.choose_positions(
        tf.constant([[False, True, True, True, False]]),
        count=tf.constant([2]),
        num_positions=3,
        noise=tf.constant([[0.9, 0.2, 0.5, 0.4, 0.8]]),
    )
    np.testing.assert_array_equal(positions, [[2, 3, 0]])
    np.testing.assert_array_equal(weights, [[1, 1, 0]])


def test_a_row_without_enough_candidates_predicts_all_that_it_has():
    masked = mask(batch_of([[CLS, SEP, 7, SEP, SEP, SEP, SEP, SEP]]), mask_prob=0.4)
    np.testing.assert_array_equal(masked.masked_lm_positions, [[2, 0, 0]])
    np.testing.assert_array_equal(masked.masked_lm_weights, [[1, 0, 0]])
    np.testing.assert_array_equal(masked.masked_lm_ids, [[7, 0, 0]])


@pytest.mark.parametrize("with_replacement", [False, True])
@pytest.mark.parametrize("row", [[PAD] * 6, [CLS, SEP, PAD, PAD, PAD, PAD]])
def test_a_row_with_nothing_to_predict_has_weight_0(row, with_replacement):
    masked = mask(batch_of([row]), with_replacement=with_replacement)
    np.testing.assert_array_equal(masked.masked_lm_weights, [[0, 0, 0]])
    np.testing.assert_array_equal(masked.masked_lm_positions, [[0, 0, 0]])
    np.testing.assert_array_equal(masked.masked_lm_ids, [[0, 0, 0]])
    np.testing.assert_array_equal(masked.masked_input_ids, [row])


def test_a_slot_masks_below_085_and_an_unused_slot_never():
    written = masking.write_mask(
        tf.constant([[CLS, 11, 12, 13, SEP]]),
        positions=tf.constant([[1, 2, 0]]),
        weights=tf.constant([[1.0, 1.0, 0.0]]),
        draws=tf.constant([[0.849, 0.851, 0.0]]),
        mask_id=MASK,
    )
    np.testing.assert_array_equal(written, [[CLS, MASK, 12, 13, SEP]])


def test_a_repeated_position_is_masked_if_any_of_its_draws_says_so():
    written = masking.write_mask(
        tf.constant([[CLS, 11, 12, SEP]]),
        positions=tf.constant([[1, 1, 2, 2]]),
        weights=tf.ones([1, 4]),
        draws=tf.constant([[0.9, 0.1, 0.9, 0.9]]),
        mask_id=MASK,
    )
    np.testing.assert_array_equal(written, [[CLS, MASK, 12, SEP]])


@pytest.fixture(scope="module")
def many():
    """6,000 rows of three lengths, masked: 20 slots at most, 15% of the length."""
    rows = [sentence(128), sentence(60, 68), sentence(22, 106)] * 2000
    batch = batch_of(rows)
    masked = mask(batch, n=20)
    return batch, type(masked)(*(np.asarray(x) for x in masked))


def test_exactly_the_wanted_number_of_distinct_positions_is_chosen(many):
    _, masked = many
    wanted = np.tile([19, 9, 3], 2000)  # round(.15 * (128, 60, 22))
    np.testing.assert_array_equal(masked.masked_lm_weights.sum(1), wanted)
    for positions, weights in zip(
        masked.masked_lm_positions, masked.masked_lm_weights > 0
    ):
        assert len(set(positions[weights])) == weights.sum()


def test_no_special_token_and_no_padding_is_chosen(many):
    batch, masked = many
    used = masked.masked_lm_weights > 0
    chosen = np.take_along_axis(
        batch["input_ids"].numpy(), masked.masked_lm_positions, 1
    )
    assert not np.isin(chosen[used], [PAD, *SPECIALS]).any()
    np.testing.assert_array_equal(masked.masked_lm_ids, np.where(used, chosen, 0))


def test_every_position_is_as_likely_as_any_other(many):
    _, masked = many
    positions = masked.masked_lm_positions[::3][masked.masked_lm_weights[::3] > 0]
    counts = np.bincount(positions, minlength=128)
    assert counts[0] == counts[127] == 0  # [CLS] and [SEP]
    assert stats.chisquare(counts[1:127]).pvalue > 1e-3


def test_85_percent_become_mask_15_stay_and_none_become_another_token():
    batch = batch_of([sentence(128)] * 6000)
    masked = mask(batch, n=19, seed=5)
    used = masked.masked_lm_weights.numpy() > 0
    assert used.sum() >= 100_000
    shown = np.take_along_axis(
        masked.masked_input_ids.numpy(), masked.masked_lm_positions.numpy(), 1
    )[used]
    original = masked.masked_lm_ids.numpy()[used]
    assert np.mean(shown == MASK) == pytest.approx(0.85, abs=0.005)
    assert np.all((shown == MASK) | (shown == original))


def test_nothing_outside_the_chosen_positions_changes(many):
    batch, masked = many
    before, after = batch["input_ids"].numpy(), masked.masked_input_ids
    outside = np.ones(before.shape, bool)
    for row, (positions, weights) in enumerate(
        zip(masked.masked_lm_positions, masked.masked_lm_weights)
    ):
        outside[row, positions[weights > 0]] = False
    np.testing.assert_array_equal(after[outside], before[outside])
    np.testing.assert_array_equal(masked.input_ids, before)


def test_a_row_is_masked_the_same_however_the_batch_is_split():
    batch = batch_of([sentence(20), sentence(16, 4), sentence(12, 8), sentence(20)])
    whole = mask(batch, step=9)
    parts = [
        mask({k: v[a:b] for k, v in batch.items()}, range(a, b), step=9)
        for a, b in ((0, 1), (1, 4))
    ]
    assert_equal(whole, type(whole)(*(np.concatenate(x) for x in zip(*parts))))


def test_masking_in_a_graph_equals_masking_eagerly():
    batch = batch_of([sentence(20), sentence(16, 4)])
    graph = tf.function(lambda b, step: mask(b, step=step))
    assert_equal(graph(batch, tf.constant(4, tf.int64)), mask(batch, step=4))


def test_the_next_epoch_masks_other_positions():
    batch = batch_of([sentence(128)])
    first, again, next_epoch = (mask(batch, n=19, step=s) for s in (3, 3, 4))
    assert_equal(first, again)
    one, other = (set(m.masked_lm_positions.numpy()[0]) for m in (first, next_epoch))
    assert len(one & other) < 12  # 2.9 expected of 19


def test_equal_sentences_of_a_batch_are_masked_differently():
    masked = mask(batch_of([sentence(128)] * 2), n=19)
    one, other = (set(p) for p in masked.masked_lm_positions.numpy())
    assert one != other


def test_with_replacement_a_draw_names_the_allowed_position_of_its_share():
    positions, weights = masking.choose_positions_with_replacement(
        tf.constant([[False, True, False, True, True]]),
        count=tf.constant([4]),
        num_positions=5,
        noise=tf.constant([[0.0, 0.34, 0.99999999, 0.1, 0.5]]),
    )
    np.testing.assert_array_equal(positions, [[1, 3, 4, 1, 0]])
    np.testing.assert_array_equal(weights, [[1, 1, 1, 1, 0]])


@pytest.fixture(scope="module")
def like_the_original(golden):
    """The recorded batch, masked with replacement, and what was recorded of it."""
    stats_ = recorded.read_json(golden, "masking_stats.json")
    batch = {k: tf.constant(v) for k, v in stats_["batch"].items()}
    size, length = batch["input_ids"].shape
    draws = stats_["n_draws"]
    many = {k: tf.tile(v, [draws, 1]) for k, v in batch.items()}
    ids = stats_["specials"]
    masked = masking.mask(
        many,
        tf.range(draws * size),
        seed=1,
        step=0,
        mask_id=ids["[MASK]"],
        special_ids=(ids["[CLS]"], ids["[SEP]"], ids["[MASK]"]),
        mask_prob=stats_["mask_prob"],
        max_predictions_per_seq=stats_["max_predictions_per_seq"],
        with_replacement=True,
    )
    shape = [draws, size, -1]
    return stats_, type(masked)(*(np.reshape(x, shape) for x in masked))


@pytest.mark.golden
def test_with_replacement_the_slots_are_used_as_recorded(like_the_original):
    recorded_stats, masked = like_the_original
    wanted = np.broadcast_to(
        recorded_stats["masked_lm_weights"], masked.masked_lm_weights.shape
    )
    np.testing.assert_array_equal(masked.masked_lm_weights, wanted)


@pytest.mark.golden
def test_with_replacement_positions_are_drawn_as_recorded(like_the_original):
    recorded_stats, masked = like_the_original
    n, length = recorded_stats["n_draws"], masked.input_ids.shape[-1]
    for row, mean in enumerate(recorded_stats["mean_slots_per_position"]):
        used = masked.masked_lm_weights[:, row] > 0
        positions = masked.masked_lm_positions[:, row][used]
        ours = np.bincount(positions, minlength=length)
        theirs = np.rint(np.array(mean) * n).astype(int)
        np.testing.assert_array_equal(ours > 0, theirs > 0)
        assert same_distribution(ours, theirs), row


@pytest.mark.golden
def test_with_replacement_positions_repeat_as_often_as_recorded(like_the_original):
    recorded_stats, masked = like_the_original
    for row, theirs in enumerate(recorded_stats["distinct_positions_histogram"]):
        used = masked.masked_lm_weights[:, row] > 0
        distinct = [
            len(set(p[u])) for p, u in zip(masked.masked_lm_positions[:, row], used)
        ]
        ours = np.bincount(distinct, minlength=len(theirs))
        assert same_distribution(ours, np.array(theirs)), row


@pytest.mark.golden
def test_with_replacement_k_draws_of_a_position_mask_it_as_recorded(like_the_original):
    recorded_stats, masked = like_the_original
    rows = masked.input_ids.reshape(-1, masked.input_ids.shape[-1])
    times = np.zeros(rows.shape, int)
    positions = masked.masked_lm_positions.reshape(len(rows), -1)
    used = masked.masked_lm_weights.reshape(len(rows), -1) > 0
    np.add.at(times, (np.nonzero(used)[0], positions[used]), 1)
    became = masked.masked_input_ids.reshape(rows.shape) != rows
    assert not became[times == 0].any()
    for entry in recorded_stats["replaced_given_multiplicity"]:
        ours = became[times == entry["multiplicity"]]
        both = [
            [ours.sum(), (~ours).sum()],
            [entry["n"] * p for p in (entry["p_mask"], 1 - entry["p_mask"])],
        ]
        if len(ours) and entry["n"]:
            assert same_distribution(*np.rint(both).astype(int)), entry


def same_distribution(ours, theirs):
    """Chi-squared test of two histograms; cells too rare to tell are merged."""
    table = np.stack([ours, theirs])
    rare = table.sum(0) < 20
    table = np.concatenate(
        [table[:, ~rare], table[:, rare].sum(1, keepdims=True)], axis=1
    )
    table = table[:, table.sum(0) > 0]
    return table.shape[1] < 2 or stats.chi2_contingency(table).pvalue > 1e-3


def test_the_streams_of_masking_are_not_the_streams_of_sampling():
    streams = (
        randomness.MASKED_POSITIONS,
        randomness.KEEP_OR_MASK,
        randomness.SAMPLED_IDS,
        randomness.UNIFORM_IDS,
    )
    assert len(set(streams)) == 4
