"""Learns a WordPiece vocabulary of exactly the size asked for from word counts.

The learner is TensorFlow Text's; here are the alphabet, the search for its threshold,
and what fills the list up. The same corpus and options always give the same pieces.
"""

import functools
import importlib.util
import os
from collections import Counter

from electra_tf.data import tokenization
from electra_tf.data.tokenization import SPECIAL_TOKENS, TokenizerSettings
from electra_tf.data.word_counts import count_words
from electra_tf.errors import InputError

# Longer words aren't learned from, and no piece is longer.
MAX_PIECE_CHARACTERS = 50
# The learner keeps every substring of every word in memory; the most frequent
# words decide the vocabulary.
MAX_LEARNER_WORDS = 300_000
# The learner's rounds of counting pieces and splitting words anew with them.
NUM_ITERATIONS = 4
# The threshold search stops this close below the target; the rest is topped up.
SLACK = 0.02
MAX_SEARCH_STEPS = 10


def build_vocab(
    files,
    vocab_size,
    settings=TokenizerSettings(),
    num_unused=100,
    limit_alphabet=1000,
    min_frequency=2,
    max_input_chars=0,
    num_processes=1,
    report=lambda message: None,
):
    """Returns the pieces of a vocabulary of exactly `vocab_size`, in id order.

    Args:
        files: paths of UTF-8 text files.
        settings: the tokenizer settings that the vocabulary will be used with.
        num_unused: how many [unusedN] slots follow the special tokens.
        limit_alphabet: how many characters to keep; words with others are [UNK].
        min_frequency: words and pieces that occur less often are not learned.
        max_input_chars: about how many bytes of text to use, as lines drawn evenly
            from the whole corpus; 0 uses everything.
        num_processes: how many files to count at a time.
        report: called with each line of progress and statistics.
    """
    _check_numbers(vocab_size, num_unused, limit_alphabet, min_frequency)
    counted = count_words(files, settings, max_input_chars, num_processes, report)
    words = [
        (word, count)
        for word, count in _by_frequency(counted.words)
        if count >= min_frequency and len(word) <= MAX_PIECE_CHARACTERS
    ]
    alphabet = _choose_alphabet(counted.words, limit_alphabet, report)
    words = [(word, count) for word, count in words if alphabet.issuperset(word)]
    first = list(SPECIAL_TOKENS) + [f"[unused{i}]" for i in range(num_unused)]
    characters = _alphabet_pieces(alphabet)
    smallest = len(first) + len(characters)
    if vocab_size < smallest:
        raise InputError(
            f"--vocab_size={vocab_size} is too small: {len(SPECIAL_TOKENS)} special "
            f"tokens, {num_unused} unused slots and {len(characters)} pieces of the "
            f"alphabet need {smallest}; raise it, or lower --limit_alphabet (now "
            f"{limit_alphabet}) or --num_unused"
        )
    learned = _learn(words, vocab_size - len(first), characters, min_frequency, report)
    pieces = (first + learned)[:vocab_size]
    _fill(pieces, vocab_size, num_unused, report)
    _report_coverage(pieces, settings, counted, report)
    return pieces


def _by_frequency(counts):
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def _choose_alphabet(words, limit, report):
    characters = Counter()
    for word, count in words.items():
        for character in word:
            characters[character] += count
    ranked = _by_frequency(characters)
    total = characters.total()
    kept = sum(count for _, count in ranked[:limit])
    if len(ranked) > limit:
        report(
            f"{len(ranked):,} different characters, {len(ranked) - limit:,} rare ones "
            f"dropped by --limit_alphabet={limit}: {total - kept:,} of {total:,} "
            f"occurrences ({(total - kept) / total:.4%})"
        )
    else:
        report(f"{len(ranked):,} different characters, all kept")
    return {character for character, _ in ranked[:limit]}


def _alphabet_pieces(alphabet):
    """Returns each character as a first piece and, where it can be, a later one."""
    inner = [c for c in alphabet if not _stands_alone(ord(c))]
    return sorted(alphabet) + sorted(f"##{c}" for c in inner)


def _stands_alone(code_point):
    return tokenization.is_punctuation(code_point) or any(
        first <= code_point <= last for first, last in tokenization.CJK_RANGES
    )


def _learn(words, size, characters, min_frequency, report):
    """Returns up to `size` pieces: the alphabet, then the most useful ones.

    The learner takes a frequency threshold, not a size. The threshold is searched
    for; what is missing then comes from the next larger vocabulary that was seen,
    and after that from whole words.
    """
    if len(words) > MAX_LEARNER_WORDS:
        report(
            f"learning from the {MAX_LEARNER_WORDS:,} most frequent of "
            f"{len(words):,} words"
        )
    smaller, larger = _search(
        words[:MAX_LEARNER_WORDS], size, characters, min_frequency, report
    )
    whole_words = (word for word, _ in words)
    pieces = dict.fromkeys(smaller)
    for more in (larger, whole_words):
        for piece in more:
            if len(pieces) >= size:
                break
            pieces.setdefault(piece)
    return list(pieces)[:size]


def _search(words, size, characters, min_frequency, report):
    """Returns the largest vocabulary seen within `size`, the smallest beyond it."""
    smaller, larger = characters, []
    if not words or size <= len(characters):
        return smaller, larger
    report("learning pieces")
    low, high = max(1, min_frequency), words[0][1] + 1
    threshold = words[min(size, len(words)) - 1][1]
    for _ in range(MAX_SEARCH_STEPS):
        threshold = min(max(threshold, low), high - 1)
        pieces = _learn_with_threshold(words, threshold, characters)
        report(f"  pieces that occur {threshold:,} times or more: {len(pieces):,}")
        if len(pieces) > size:
            larger, low = pieces, threshold + 1
        else:
            smaller, high = pieces, threshold
        if low >= high or 0 <= size - len(pieces) <= SLACK * size:
            break
        # By Zipf's law the number of pieces is about inverse to the threshold.
        gained = max(1, len(pieces) - len(characters))
        threshold = round(threshold * gained / (size - len(characters)))
    return smaller, larger


def _learn_with_threshold(words, threshold, characters):
    learner = _load_learner()
    params = learner.Params(
        upper_thresh=None,
        lower_thresh=None,
        num_iterations=NUM_ITERATIONS,
        max_input_tokens=-1,
        max_token_length=MAX_PIECE_CHARACTERS,
        max_unique_chars=None,
        vocab_size=None,
        slack_ratio=None,
        include_joiner_token=True,
        joiner="##",
        reserved_tokens=characters,
    )
    pieces = learner.learn_with_thresh(words, threshold, params)
    # The learner has "##," too, which no text can give.
    alone = {f"##{c}" for c in characters if len(c) == 1 and _stands_alone(ord(c))}
    return [piece for piece in pieces if piece not in alone]


@functools.cache
def _load_learner():
    """Loads TensorFlow Text's learner, a file of plain Python, without TensorFlow.

    It is what `keras_nlp.tokenizers.compute_word_piece_vocabulary` runs.
    """
    package = importlib.util.find_spec("tensorflow_text")
    if package is None:
        raise InputError(
            "learning a vocabulary needs the package tensorflow-text: "
            "pip install tensorflow-text"
        )
    name = "wordpiece_tokenizer_learner_lib"
    folder = package.submodule_search_locations[0]
    path = os.path.join(folder, "tools", "wordpiece_vocab", f"{name}.py")
    spec = importlib.util.spec_from_file_location(name, path)
    learner = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(learner)
    return learner


def _fill(pieces, vocab_size, num_unused, report):
    missing = vocab_size - len(pieces)
    if missing:
        report(
            f"the corpus gives {len(pieces):,} pieces only; {missing:,} more "
            f"[unused] slots fill the vocabulary to {vocab_size:,} (more text, or a "
            "lower --min_frequency, gives more pieces)"
        )
    pieces.extend(f"[unused{num_unused + i}]" for i in range(missing))


def _report_coverage(pieces, settings, counted, report):
    vocabulary = tokenization.Vocabulary(pieces)
    tokenizer = tokenization.Tokenizer(vocabulary, settings)
    num_words = num_pieces = counted.too_long
    unknown = counted.too_long
    for word, count in counted.words.items():
        ids = tokenizer.encode(word)
        num_words += count
        num_pieces += count * len(ids)
        unknown += count * ids.count(vocabulary.unk_id)
    report(
        f"coverage: {num_words:,} words in {num_pieces:,} pieces "
        f"({num_pieces / num_words:.3f} a word), [UNK] {unknown:,} "
        f"({unknown / num_pieces:.4%})"
    )
    if unknown > 0.01 * num_pieces:
        report(
            "more than 1% of the pieces are [UNK]: raise --limit_alphabet (Chinese "
            "and Japanese need several thousand characters)"
        )


def _check_numbers(vocab_size, num_unused, limit_alphabet, min_frequency):
    wanted = (
        ("vocab_size", vocab_size, len(SPECIAL_TOKENS)),
        ("num_unused", num_unused, 0),
        ("limit_alphabet", limit_alphabet, 1),
        ("min_frequency", min_frequency, 1),
    )
    for name, value, least in wanted:
        if value < least:
            raise InputError(f"--{name}={value}: it must be at least {least}")
