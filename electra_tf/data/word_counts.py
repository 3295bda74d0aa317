"""How often each word occurs in a corpus, split as the tokenizer will split it.

Streaming: never more than the words themselves are in memory.
"""

import time
import zlib
from collections import Counter
from dataclasses import dataclass, field

from electra_tf.data import corpus_files, tokenization
from electra_tf.data.example_workers import run_in_order
from electra_tf.data.tokenization import MAX_WORD_CHARACTERS
from electra_tf.errors import InputError
from electra_tf.files import file_size


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
        counter = _FileCounter(settings, share)
        calls = ((path,) for path in files)
        # In the files' order, so that reports don't depend on timing.
        results = run_in_order(counter, "count", calls, num_processes)
        for path, result in zip(files, results):
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


@dataclass
class _FileCounter:
    """Counts files in a process of its own."""

    settings: tokenization.TokenizerSettings
    share: float

    def count(self, path):
        return _count_file(path, self.settings, self.share)


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
