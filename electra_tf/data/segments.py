"""Documents to pre-training examples: one or two segments of consecutive text.

Both builders follow section "Pre-training data" of the original release: an example
gathers lines until `target_length` tokens are there; 10% of the examples hold a
single segment, the others are split at a line end near the middle, where a coin
decides about the line that straddles it; the target is max_seq_length, but for 5% of
the examples a random length from 5 up. Neither mixes documents.

`OriginalExampleBuilder` cuts what overflows max_seq_length, which on prose at length
128 loses a sixth of the tokens and more. `ExampleBuilder` (the default) loses none:
- what overflows, be it the rest of a long line, opens the next example;
- a line goes to the first segment only while the second is empty, so that the
  text keeps its order (the original lets a later short line jump the queue);
- an example is made once max_seq_length * 9/8 tokens are there, and what is left at
  the end of a document is halved if it doesn't fit into one example: a document
  longer than one example doesn't end in a scrap of a few tokens;
- its draws are seeded by the document's text, so that examples depend neither on
  the order of documents nor on the number of processes.
"""

import collections
import hashlib
import random

from electra_tf.data.packing import PAIR_SPECIALS, SINGLE_SPECIALS, truncate

MIN_SEQ_LENGTH = 5
SINGLE_SEGMENT_PROBABILITY = 0.1
SHORT_TARGET_PROBABILITY = 0.05
# The target of a first segment that is to take everything.
UNLIMITED = 100_000


class OriginalExampleBuilder:
    """The original's ExampleBuilder, draw by draw.

    `add_line` returns an example, a pair of lists of ids, whenever one is complete.
    The draws come from `rng`, a `random.Random` that the caller may share.
    """

    def __init__(self, encode, max_seq_length, rng):
        self._encode = encode
        self._max_seq_length = max_seq_length
        self._rng = rng
        self._sentences = []
        self._length = 0
        self._target_length = max_seq_length

    def add_line(self, line):
        """Takes a line; a blank one ends the document if it holds any token."""
        line = line.strip().replace("\n", " ")
        if not line and self._length != 0:
            return self._make_example()
        # A blank line between documents is kept as an empty sentence.
        ids = self._encode(line)
        self._sentences.append(ids)
        self._length += len(ids)
        if self._length >= self._target_length:
            return self._make_example()
        return None

    def _make_example(self):
        first_target = draw_first_target(self._rng, self._target_length)
        first, second = [], []
        for sentence in self._sentences:
            if (
                not first
                or len(first) + len(sentence) < first_target
                # The coin is thrown only if it matters: the order of draws counts.
                or (not second and len(first) < first_target and toss(self._rng))
            ):
                first += sentence
            else:
                second += sentence
        self._sentences = []
        self._length = 0
        self._target_length = draw_target(self._rng, self._max_seq_length)
        return truncate(first, second, self._max_seq_length)


class ExampleBuilder:
    """Makes the examples of one document and keeps every token.

    `add_line` and `finish` return lists of examples, pairs of lists of ids.
    """

    def __init__(self, encode, max_seq_length, rng):
        self._encode = encode
        self._max_seq_length = max_seq_length
        self._rng = rng
        self._sentences = collections.deque()
        self._taken = 0  # of the first sentence, by the example before
        self._length = 0
        self._target_length = draw_target(rng, max_seq_length)

    def add_line(self, line):
        ids = self._encode(line)
        if ids:
            self._sentences.append(ids)
            self._length += len(ids)
        examples = []
        while self._length >= self._max_seq_length + self._max_seq_length // 8:
            examples.append(self._make_example(self._max_seq_length))
        return examples

    def finish(self):
        """Ends the document."""
        examples = []
        room = self._max_seq_length - PAIR_SPECIALS
        while self._length:
            # All of the rest, or half of it.
            self._target_length = UNLIMITED
            fits = self._length <= room
            limit = self._length if fits else min(room, (self._length + 1) // 2)
            examples.append(self._make_example(limit + PAIR_SPECIALS))
        return examples

    def _make_example(self, max_length):
        """Takes lines until the target or `max_length` is reached; splits the last."""
        target = min(self._target_length, max_length)
        first_target = draw_first_target(self._rng, target)
        first, second = [], []
        while self._sentences and len(first) + len(second) < target:
            sentence, start = self._sentences[0], self._taken
            length = len(sentence) - start
            to_first = not second and (
                not first
                or len(first) + length < first_target
                or (len(first) < first_target and toss(self._rng))
            )
            specials = SINGLE_SPECIALS if to_first else PAIR_SPECIALS
            room = max_length - specials - len(first) - len(second)
            if room <= 0:
                break
            (first if to_first else second).extend(sentence[start : start + room])
            if length > room:
                self._taken += room
                break
            self._sentences.popleft()
            self._taken = 0
        self._length -= len(first) + len(second)
        self._target_length = draw_target(self._rng, self._max_seq_length)
        return first, second


def draw_first_target(rng, target_length):
    """Draws how long the first segment is to be."""
    if rng.random() < SINGLE_SEGMENT_PROBABILITY:
        return UNLIMITED
    return (target_length - PAIR_SPECIALS) // 2


def draw_target(rng, max_seq_length):
    """Draws how many tokens the next example is to gather."""
    if rng.random() < SHORT_TARGET_PROBABILITY:
        return rng.randint(MIN_SEQ_LENGTH, max_seq_length)
    return max_seq_length


def toss(rng):
    return rng.random() < 0.5


def text_hash(seed, purpose, text):
    """Returns a number in [0, 2**64) that depends on nothing but its arguments."""
    digest = hashlib.blake2b(f"{seed}/{purpose}/{text}".encode(), digest_size=8)
    return int.from_bytes(digest.digest(), "little")


def document_examples(encode, lines, max_seq_length, seed):
    """Returns the examples of one document, a list of non-blank lines."""
    rng = random.Random(text_hash(seed, "examples", "\n".join(lines)))
    builder = ExampleBuilder(encode, max_seq_length, rng)
    examples = [e for line in lines for e in builder.add_line(line)]
    return examples + builder.finish()


def original_examples(builder, lines, blanks_separate_docs=True):
    """Yields the examples of one file as the original's writer does.

    The builder, its target length and its draws go on into the next file.
    """
    for line in lines:
        line = line.strip()
        if line or blanks_separate_docs:
            example = builder.add_line(line)
            if example:
                yield example
    example = builder.add_line("")
    if example:
        yield example


def original_file_order(files, job_id, num_jobs, rng):
    """Returns one job's share of the sorted files in the order it reads them."""
    share = [f for i, f in enumerate(sorted(files)) if i % num_jobs == job_id]
    rng.shuffle(share)
    return share
