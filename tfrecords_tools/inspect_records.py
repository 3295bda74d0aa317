"""Shows pre-training records as text.

python -m tfrecords_tools.inspect_records --records=data/pretrain_tfrecords
"""

import itertools
import os
import sys

from absl import flags

from electra_tf import command_line
from electra_tf.data import records
from electra_tf.data.tokenization import Vocabulary
from electra_tf.errors import InputError

HISTOGRAM_BARS = 8

FLAGS = flags.FLAGS


def inspect(pattern_or_folder, vocab_file=None, num_examples=5, skip=0):
    """Yields lines of text: the manifest, some examples, a histogram of lengths."""
    shards = records.find_shards(pattern_or_folder)
    vocabulary = Vocabulary.load(vocab_file or find_vocabulary(shards[0]))
    manifest = records.read_manifest(os.path.dirname(shards[0]) or ".")
    yield from _manifest_lines(manifest, shards, vocabulary)
    records.check_shards(shards)
    lengths = []
    stream = itertools.chain.from_iterable(map(records.read_records, shards))
    # islice takes no larger number, and no folder holds as many records.
    wanted = itertools.islice(
        stream, min(skip, sys.maxsize), min(skip + num_examples, sys.maxsize)
    )
    for number, data in enumerate(wanted, start=skip):
        example = records.parse_example(data, where=f"record {number}")
        lengths.append(sum(example["input_mask"]))
        yield ""
        yield from example_lines(number, example, vocabulary)
    if not lengths:
        raise InputError(f"there is no record number {skip} in {pattern_or_folder}")
    yield ""
    yield histogram(lengths, len(example["input_ids"]))


def find_vocabulary(shard):
    """Looks for data_dir/vocab.txt in the folders above a shard."""
    folder = os.path.dirname(os.path.abspath(shard))
    for above in (folder, os.path.dirname(folder)):
        if os.path.exists(os.path.join(above, "vocab.txt")):
            return os.path.join(above, "vocab.txt")
    raise InputError(
        f"no vocab.txt is found in {folder} or the folder above it: give --vocab_file"
    )


def _manifest_lines(manifest, shards, vocabulary):
    if manifest is None:
        yield f"{len(shards)} shards without a manifest"
        return
    counts = ", ".join(f"{value:,} {name}" for name, value in manifest.counts.items())
    yield f"{len(manifest.shards)} shards of max_seq_length {manifest.max_seq_length}"
    yield f"counts: {counts}"
    settings = {**manifest.settings, **manifest.tokenizer}
    yield "settings: " + ", ".join(f"{k}={v}" for k, v in settings.items())
    if manifest.vocabulary["sha256"] != vocabulary.sha256:
        raise InputError(
            f"the records were made with another vocabulary "
            f"({manifest.vocabulary['size']} pieces) than {vocabulary.source} "
            f"({vocabulary.size} pieces): give --vocab_file"
        )


def example_lines(number, example, vocabulary):
    """Returns a heading and one line for each segment."""
    length = sum(example["input_mask"])
    total = len(example["input_ids"])
    largest = max(example["input_ids"])
    if largest >= vocabulary.size:
        raise InputError(
            f"record {number} has the id {largest}, {vocabulary.source} only "
            f"{vocabulary.size} pieces: give the vocabulary that the records were "
            "made with"
        )
    pieces = [vocabulary.tokens[i] for i in example["input_ids"][:length]]
    start = length - sum(example["segment_ids"])
    lines = [f"record {number}: {length} of {total} tokens"]
    lines.append(f"  a: {merge_pieces(pieces[:start])}")
    if start < length:
        lines.append(f"  b: {merge_pieces(pieces[start:])}")
    return lines


def merge_pieces(pieces):
    """Joins pieces to words: ["electr", "##a"] to "electra"."""
    return " ".join(pieces).replace(" ##", "")


def histogram(lengths, max_seq_length):
    """Returns the lengths' counts in equal ranges as one line."""
    bars = min(HISTOGRAM_BARS, max_seq_length)
    edges = [round(max_seq_length * i / bars) for i in range(bars + 1)]
    counts = [
        f"{low + 1}-{high}: {sum(low < length <= high for length in lengths)}"
        for low, high in zip(edges, edges[1:])
    ]
    return "lengths of these  " + "  ".join(counts)


def define_flags():
    flags.DEFINE_string("records", None, "Folder or glob pattern of records.")
    flags.DEFINE_string(
        "vocab_file", None, "Vocabulary (default: vocab.txt in the folder above)."
    )
    flags.DEFINE_integer("num_examples", 5, "Records to show.", lower_bound=1)
    flags.DEFINE_integer("skip", 0, "Records to pass over first.", lower_bound=0)
    command_line.alias_with_hyphens("vocab_file", "num_examples")


def main():
    if not FLAGS.records:
        raise InputError("--records is missing: see --help")
    for line in inspect(
        FLAGS.records, FLAGS.vocab_file, FLAGS.num_examples, FLAGS.skip
    ):
        print(line)


def entry_point():
    # Records are read on the CPU, without TensorFlow's greetings.
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    define_flags()
    command_line.run(main)


if __name__ == "__main__":
    entry_point()
