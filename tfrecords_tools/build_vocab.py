"""Learns a WordPiece vocabulary from a corpus of text files.

    python -m tfrecords_tools.build_vocab --corpus_dir corpus/ \\
        --vocab_file data/vocab.txt --vocab_size 30522

The file begins with the five special tokens (ids 0 to 4) and the free slots
[unused0], [unused1], ... Then come the alphabet and the learned pieces, the most
frequent first. The same corpus and options always give the same file.
"""

import functools
import importlib.util
import multiprocessing
import os
import sys
import time
import zlib
from collections import Counter
from dataclasses import dataclass, field

from absl import flags

from electra_tf import command_line
from electra_tf.data import corpus_files, tokenization
from electra_tf.data.tokenization import (
    MAX_WORD_CHARACTERS,
    SPECIAL_TOKENS,
    TokenizerSettings,
)
from electra_tf.errors import InputError
from electra_tf.files import file_exists, file_size

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


@dataclass
class WordCounts:
    """How often each word occurs, and what couldn't be counted as a word."""

    words: Counter = field(default_factory=Counter)
    too_long: int = 0
    bad_lines: int = 0
    first_bad: str = ""

    def add(self, other):
        self.words.update(other.words)
        self.too_long += other.too_long
        self.bad_lines += other.bad_lines
        self.first_bad = self.first_bad or other.first_bad


def count_words(files, settings, max_input_chars=0, num_processes=1, report=None):
    """Counts the words of files as WordPiece will see them: split and normalised."""
    report = report or (lambda message: None)
    total = sum(file_size(path) for path in files)
    share = min(1.0, max_input_chars / total) if max_input_chars and total else 1.0
    progress = _Progress(total, report)
    counted = WordCounts()
    if num_processes > 1 and len(files) > 1:
        jobs = [(path, settings, share) for path in files]
        # Not forked: the caller may have TensorFlow's threads running.
        with multiprocessing.get_context("spawn").Pool(num_processes) as pool:
            # In the files' order, so that reports don't depend on timing.
            for path, result in zip(files, pool.imap(_count_job, jobs)):
                counted.add(result)
                progress.add(file_size(path))
    else:
        for path in files:
            counted.add(_count_file(path, settings, share, progress.add))
    progress.finish()
    if counted.bad_lines:
        report(
            f"{counted.bad_lines:,} lines are not valid UTF-8 (first: "
            f"{counted.first_bad}); their bad bytes were left out"
        )
    if not counted.words:
        raise InputError(
            f"the corpus holds no word: {len(files)} file(s), {total} bytes, first "
            f"{files[0]!r}; give text files in UTF-8"
            if files
            else "the corpus holds no file"
        )
    return counted


def _count_job(job):
    return _count_file(*job)


def _count_file(path, settings, share, on_read=None):
    counted = WordCounts()

    def note_bad_line(path, number):
        counted.bad_lines += 1
        counted.first_bad = counted.first_bad or f"{path}, line {number}"

    splitter = tokenization.WordSplitter(settings)
    raw = Counter()
    lines = corpus_files.read_lines(path, note_bad_line, on_read=on_read)
    for number, line in enumerate(lines):
        # A draw that depends on the line's place alone.
        if share < 1 and zlib.crc32(number.to_bytes(8, "little")) >= share * 2**32:
            continue
        raw.update(tokenization.whitespace_words(line))
        if len(raw) > 200_000:
            _split_counts(raw, splitter, counted)
            raw.clear()
    _split_counts(raw, splitter, counted)
    return counted


def _split_counts(raw, splitter, counted):
    for text, count in raw.items():
        for word in splitter.split(text):
            if len(word) > MAX_WORD_CHARACTERS:
                counted.too_long += count
            else:
                counted.words[word] += count


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


class _Progress:
    """Reports bytes read, rate and time left every few seconds."""

    INTERVAL = 5.0

    def __init__(self, total, report):
        self._total, self._report, self._done = total, report, 0
        self._start = self._last = time.monotonic()

    def add(self, num_bytes):
        self._done += num_bytes
        now = time.monotonic()
        if now - self._last >= self.INTERVAL:
            self._last = now
            rate = self._done / (now - self._start)
            left = max(0, self._total - self._done) / max(rate, 1.0)
            self._report(
                f"read {self._done / 1e6:,.0f} of {self._total / 1e6:,.0f} MB "
                f"({self._done / max(self._total, 1):.0%}), {rate / 1e6:.1f} MB/s, "
                f"{left / 60:.1f} min left"
            )

    def finish(self):
        seconds = max(time.monotonic() - self._start, 1e-9)
        self._report(
            f"read {self._total / 1e6:,.1f} MB in {seconds:.1f} s "
            f"({self._total / 1e6 / seconds:.1f} MB/s)"
        )


def define_flags():
    """Defines this tool's flags; a function, since absl's flags are global."""
    flags.DEFINE_string("corpus_dir", None, "Directory, file or glob of text files.")
    flags.DEFINE_string("vocab_file", None, "The vocabulary file to write.")
    flags.DEFINE_integer("vocab_size", 30522, "Number of pieces, exactly.")
    flags.DEFINE_boolean("do_lower_case", True, "Lower-case the text.")
    flags.DEFINE_boolean(
        "strip_accents", None, "Strip accents; by default when lower-casing."
    )
    flags.DEFINE_integer("num_unused", 100, "Free [unusedN] slots to reserve.")
    flags.DEFINE_integer(
        "limit_alphabet", 1000, "Characters to keep, the most frequent ones."
    )
    flags.DEFINE_integer(
        "min_frequency", 2, "Don't learn words and pieces that occur less often."
    )
    flags.DEFINE_integer(
        "max_input_chars",
        0,
        "Learn from about this many bytes, lines drawn evenly; 0: the whole corpus.",
    )
    flags.DEFINE_integer("num_processes", 1, "Files to count at the same time.")
    flags.DEFINE_boolean("overwrite", False, "Replace an existing vocabulary file.")
    command_line.alias_with_hyphens(
        "corpus_dir",
        "vocab_file",
        "vocab_size",
        "do_lower_case",
        "strip_accents",
        "num_unused",
        "limit_alphabet",
        "min_frequency",
        "max_input_chars",
        "num_processes",
    )


def main():
    options = flags.FLAGS
    for name in ("corpus_dir", "vocab_file"):
        if not options[name].value:
            raise InputError(f"--{name} is missing: see --help")
    if options.num_processes < 1 or options.max_input_chars < 0:
        raise InputError(
            f"--num_processes={options.num_processes}, --max_input_chars="
            f"{options.max_input_chars}: give at least 1 process and 0 bytes"
        )
    path = options.vocab_file
    _check_target(path, options.overwrite)
    files = corpus_files.list_text_files(options.corpus_dir)
    # An earlier vocabulary inside the corpus directory is no text.
    files = [f for f in files if os.path.abspath(f) != os.path.abspath(path)]
    _say(f"{len(files):,} file(s) of text")
    pieces = build_vocab(
        files,
        options.vocab_size,
        TokenizerSettings(options.do_lower_case, options.strip_accents),
        num_unused=options.num_unused,
        limit_alphabet=options.limit_alphabet,
        min_frequency=options.min_frequency,
        max_input_chars=options.max_input_chars,
        num_processes=options.num_processes,
        report=_say,
    )
    tokenization.save_vocabulary(path, pieces)
    print(f"wrote {len(pieces):,} pieces to {path}")


def _check_target(path, overwrite):
    if os.path.isdir(path):
        raise InputError(f"--vocab_file={path} is a directory: name a file in it")
    if file_exists(path) and not overwrite:
        raise InputError(
            f"--vocab_file={path} exists already: give another name, or --overwrite"
        )
    if "://" not in path:
        # Now, not after hours of work.
        folder = os.path.dirname(os.path.abspath(path))
        os.makedirs(folder, exist_ok=True)
        if not os.access(folder, os.W_OK):
            raise InputError(f"--vocab_file={path}: {folder} is not writable")


def _say(message):
    print(message, file=sys.stderr, flush=True)


def entry_point():
    define_flags()
    command_line.run(main)


if __name__ == "__main__":
    entry_point()
