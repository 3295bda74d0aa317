"""Assembles [CLS] a [SEP] b [SEP] with its segment ids and padding: the only place.

tokens       [CLS] a a a [SEP] b b [SEP] [PAD] [PAD]
segment_ids    0   0 0 0   0   1 1   1     0     0
input_mask     1   1 1 1   1   1 1   1     0     0
"""

# [CLS] and [SEP] around one segment; two segments take one more [SEP].
SINGLE_SPECIALS = 2
PAIR_SPECIALS = 3


def truncate(first, second, max_seq_length):
    """Cuts two segments as the original does: the second gives way to the first."""
    first = first[: max_seq_length - SINGLE_SPECIALS]
    return first, second[: max(0, max_seq_length - len(first) - PAIR_SPECIALS)]


def join(first, second, cls_id, sep_id):
    """Returns the ids and the segment ids of one or two segments, without padding."""
    input_ids = [cls_id, *first, sep_id]
    segment_ids = [0] * len(input_ids)
    if second:
        input_ids += [*second, sep_id]
        segment_ids += [1] * (len(second) + 1)
    return input_ids, segment_ids


def pad(input_ids, segment_ids, max_seq_length, pad_id=0):
    """Pads to `max_seq_length`; the caller has already truncated.

    Shapes:
        input_ids, segment_ids: lists of at most max_seq_length ints
        returns: input_ids, input_mask, segment_ids, lists of max_seq_length ints
    """
    room = max_seq_length - len(input_ids)
    if room < 0:
        raise ValueError(f"{len(input_ids)} ids don't fit into {max_seq_length}")
    return {
        "input_ids": [*input_ids, *[pad_id] * room],
        "input_mask": [1] * len(input_ids) + [0] * room,
        "segment_ids": [*segment_ids, *[0] * room],
    }


def pack(first, second, max_seq_length, cls_id, sep_id, pad_id=0):
    """Joins and pads: the features of one example (see `join` and `pad`)."""
    return pad(*join(first, second, cls_id, sep_id), max_seq_length, pad_id)
