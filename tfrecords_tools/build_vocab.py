"""Learns a WordPiece vocabulary from a corpus of text files.

    python -m tfrecords_tools.build_vocab --corpus_dir corpus/ \\
        --vocab_file data/vocab.txt --vocab_size 30522

The file begins with the five special tokens (ids 0 to 4) and the free slots
[unused0], [unused1], ... Then come the alphabet and the learned pieces, the most
frequent first. The same corpus and options always give the same file.
"""

import os
import sys

from absl import flags

from electra_tf import command_line
from electra_tf.data import corpus_files, tokenization
from electra_tf.data.tokenization import TokenizerSettings
from electra_tf.data.vocabulary_learner import build_vocab
from electra_tf.errors import InputError
from electra_tf.files import file_exists


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
