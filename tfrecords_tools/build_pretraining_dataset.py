"""Builds pre-training records from a folder of text files.

python -m tfrecords_tools.build_pretraining_dataset --corpus_dir=text \\
    --vocab_file=data/vocab.txt --output_dir=data/pretrain_tfrecords \\
    --max_seq_length=128 --num_processes=4 --eval_fraction=0.005

The records are the same whatever the number of processes. Nothing needs a GPU, or
TensorFlow at all (unless a path is a gs:// one).
"""

import os
import signal
import sys
import time

from absl import flags

from electra_tf import command_line
from electra_tf.data.dataset_builder import BuilderSettings, build
from electra_tf.data.tokenization import TokenizerSettings
from electra_tf.errors import InputError

UNKNOWN_RATE_WARNING = 0.05
UNREACHABLE_WARNING = 0.01
SHORT_EXAMPLES_WARNING = 0.5

FLAGS = flags.FLAGS


def define_flags():
    flags.DEFINE_string(
        "corpus_dir", None, "Folder of text files (or a file, or a glob pattern)."
    )
    flags.DEFINE_string("vocab_file", None, "WordPiece vocabulary, one piece a line.")
    flags.DEFINE_string("output_dir", None, "Where the records go.")
    flags.DEFINE_integer("max_seq_length", 128, "Tokens per example.")
    flags.DEFINE_integer("num_processes", 1, "Processes that make examples.")
    flags.DEFINE_boolean(
        "blanks_separate_docs", True, "Blank lines end documents, not only file ends."
    )
    flags.DEFINE_boolean("do_lower_case", True, "Lower-case the text.")
    flags.DEFINE_boolean("no-lower-case", False, "The same as --nodo_lower_case.")
    flags.DEFINE_boolean(
        "strip_accents", True, "Strip accents (only ever from lower-cased text)."
    )
    flags.DEFINE_alias("do-strip-accents", "strip_accents")
    flags.DEFINE_boolean("no-strip-accents", False, "The same as --nostrip_accents.")
    flags.DEFINE_integer(
        "num_out_files",
        None,
        "Shards; by default as many as give each some 5,000 examples (in the "
        "original, and with --compat=original: 1000).",
    )
    flags.DEFINE_float(
        "eval_fraction", 0.0, "Part of the documents that is set aside for evaluation."
    )
    flags.DEFINE_string(
        "eval_output_dir",
        None,
        "Where these go (default: eval_tfrecords beside output_dir).",
    )
    flags.DEFINE_integer("seed", 0, "Decides about all random draws.")
    flags.DEFINE_string(
        "compat",
        "none",
        "'original' makes examples as the original does, which cuts long text.",
    )
    flags.DEFINE_boolean("overwrite", False, "Replace records that are there.")
    command_line.alias_with_hyphens(
        "corpus_dir",
        "vocab_file",
        "output_dir",
        "max_seq_length",
        "num_processes",
        "blanks_separate_docs",
        "do_lower_case",
        "strip_accents",
        "num_out_files",
        "eval_fraction",
        "eval_output_dir",
    )


def main():
    for name in ("corpus_dir", "vocab_file", "output_dir"):
        if not FLAGS[name].value:
            raise InputError(f"--{name} is missing: see --help")
    settings = BuilderSettings(
        max_seq_length=FLAGS.max_seq_length,
        blanks_separate_docs=FLAGS.blanks_separate_docs,
        num_out_files=FLAGS.num_out_files,
        eval_fraction=FLAGS.eval_fraction,
        seed=FLAGS.seed,
        compat=FLAGS.compat,
    )
    tokenizer_settings = TokenizerSettings(
        do_lower_case=FLAGS.do_lower_case and not FLAGS["no-lower-case"].value,
        strip_accents=FLAGS.strip_accents and not FLAGS["no-strip-accents"].value,
    )
    # An ended build cleans up behind itself, as an interrupted one does.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    started = time.time()
    summary = build(
        FLAGS.corpus_dir,
        FLAGS.vocab_file,
        FLAGS.output_dir,
        settings,
        tokenizer_settings,
        num_processes=FLAGS.num_processes,
        eval_output_dir=FLAGS.eval_output_dir,
        overwrite=FLAGS.overwrite,
        on_progress=Progress("bytes" if FLAGS.compat == "none" else "jobs"),
    )
    print(report(summary, FLAGS.output_dir, time.time() - started))
    for warning in warnings(summary):
        print(f"warning: {warning}", file=sys.stderr)


class Progress:
    """Prints what is done, the rate and the time left, every ten seconds."""

    def __init__(self, unit, every_seconds=10):
        self._unit = unit
        self._every_seconds = every_seconds
        self._started = self._printed = time.time()

    def __call__(self, done, total):
        now = time.time()
        if now - self._printed < self._every_seconds or not done:
            return
        self._printed = now
        seconds = now - self._started
        rate = done / seconds
        text = f"{rate / 1e6:.2f} MB/s" if self._unit == "bytes" else f"{done} jobs"
        left = max(0, total - done) / rate
        print(
            f"{100 * done / max(total, 1):3.0f}%  {text}  {seconds:.0f} s passed, "
            f"about {left:.0f} s left",
            file=sys.stderr,
            flush=True,
        )


def report(summary, output_dir, seconds):
    """Returns the summary as lines of text."""
    counts = summary.counts
    kept, read = counts["tokens_kept"], counts["tokens_read"]
    mean = kept / counts["examples"]
    lines = [
        f"documents    {counts['documents']:,}",
        f"lines        {counts['lines']:,}",
        f"tokens       {kept:,} kept of {read:,} read ({kept / read:.2%})",
        f"[UNK]        {counts['unknown'] / read:.3%} of the tokens",
        f"examples     {counts['examples']:,} of {mean:.1f} tokens on average "
        f"(of {summary.manifest.max_seq_length})",
        _folder_line("training", summary.manifest, output_dir),
    ]
    if summary.eval_manifest:
        lines.append(_folder_line("evaluation", summary.eval_manifest, None))
    return "\n".join([*lines, f"time         {seconds:.1f} s"])


def _folder_line(name, manifest, folder):
    size = sum(shard["bytes"] for shard in manifest.shards)
    where = f" in {folder}" if folder else ""
    return (
        f"{name:<12} {manifest.counts['examples']:,} examples, "
        f"{len(manifest.shards)} shards, {size / 1e6:.1f} MB{where}"
    )


def warnings(summary):
    """Yields what looks wrong in the input."""
    counts, manifest = summary.counts, summary.manifest
    read = counts["tokens_read"]
    if counts["unknown"] > UNKNOWN_RATE_WARNING * read:
        yield (
            f"{counts['unknown'] / read:.1%} of the tokens are [UNK]: does the "
            "vocabulary fit the language and --do_lower_case?"
        )
    if summary.unreachable > UNREACHABLE_WARNING * manifest.vocabulary["size"]:
        yield (
            f"no text can give {summary.unreachable:,} of the vocabulary's "
            f"{manifest.vocabulary['size']:,} pieces with these settings: build "
            "records with the --do_lower_case and --strip_accents of the vocabulary"
        )
    if summary.old_evaluation:
        yield summary.old_evaluation
    settings = manifest.settings
    if settings["blanks_separate_docs"] and counts["lines"] > 1000:
        if counts["documents"] * 1000 < counts["lines"]:
            yield (
                f"{counts['documents']:,} documents in {counts['lines']:,} lines: "
                "documents are to be separated by blank lines"
            )
    mean = counts["tokens_kept"] / counts["examples"]
    if mean < SHORT_EXAMPLES_WARNING * manifest.max_seq_length:
        yield (
            f"examples have {mean:.0f} tokens on average: documents are short for "
            f"max_seq_length {manifest.max_seq_length}"
        )
    if settings["eval_fraction"] and not summary.eval_manifest:
        yield "no document fell to the evaluation set: raise --eval_fraction"
    if summary.bad_lines:
        path, number = summary.bad_lines[0]
        yield (
            f"{len(summary.bad_lines):,} lines aren't valid UTF-8 (the first: {path}, "
            f"line {number}): their bad bytes are left out"
        )


def join_boolean_values(arguments, name):
    """Lets the switch `--name` be followed by a value, as in the original.

    The original took any non-empty value, "False" too, for true; here it counts.
    """
    spellings = {
        f"{dashes}{spelled}"
        for dashes in ("-", "--")
        for spelled in (name, name.replace("_", "-"))
    }
    joined = []
    for argument in arguments:
        if joined and joined[-1] in spellings and not argument.startswith("-"):
            joined[-1] += f"={argument}"
        else:
            joined.append(argument)
    return joined


def entry_point():
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
    define_flags()
    sys.argv[1:] = join_boolean_values(sys.argv[1:], "blanks_separate_docs")
    command_line.run(main)


if __name__ == "__main__":
    entry_point()
