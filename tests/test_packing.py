"""[CLS] a [SEP] b [SEP] and what surrounds it."""

import pytest

from electra_tf.data import packing

CLS, SEP = 2, 3


def test_two_segments_are_joined_with_a_separator_after_each():
    assert packing.join([11, 12], [21], CLS, SEP) == (
        [CLS, 11, 12, SEP, 21, SEP],
        [0, 0, 0, 0, 1, 1],
    )


def test_a_single_segment_has_one_separator_and_no_segment_one():
    assert packing.join([11, 12], [], CLS, SEP) == ([CLS, 11, 12, SEP], [0, 0, 0, 0])


def test_padding_is_outside_the_mask_and_in_segment_zero():
    assert packing.pack([11], [21], 8, CLS, SEP, pad_id=7) == {
        "input_ids": [CLS, 11, SEP, 21, SEP, 7, 7, 7],
        "input_mask": [1, 1, 1, 1, 1, 0, 0, 0],
        "segment_ids": [0, 0, 0, 1, 1, 0, 0, 0],
    }


def test_truncation_takes_from_the_second_segment_first():
    assert packing.truncate([1, 2, 3], [4, 5, 6], 8) == ([1, 2, 3], [4, 5])
    assert packing.truncate([1, 2, 3, 4, 5, 6, 7], [8], 8) == ([1, 2, 3, 4, 5, 6], [])


def test_what_does_not_fit_is_never_padded_silently():
    with pytest.raises(ValueError, match="don't fit"):
        packing.pad([1, 2, 3], [0, 0, 0], 2)
