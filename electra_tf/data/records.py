"""Examples in TFRecord shards and the manifest beside them: the only place.

A shard is named `pretrain_data.tfrecord-{i}-of-{n}` and holds tf.train.Example
messages with three int64 lists of max_seq_length numbers each, as the original's:
input_ids, input_mask and segment_ids.

Files and messages are written without TensorFlow (tfrecord_files.py and
example_proto.py), whose import takes seconds in every worker process.
"""

import dataclasses
import glob
import json
import os
import re

from electra_tf.data.example_proto import decode_example, serialize_example
from electra_tf.data.tfrecord_files import (
    ShardWriter,
    count_records,
    frame,
    read_records,
)
from electra_tf.errors import InputError
from electra_tf.files import (
    UNFINISHED,
    file_exists,
    file_size,
    is_folder,
    list_files,
    open_file,
    replace_file,
)

__all__ = [
    "Manifest",
    "ShardWriter",
    "check_shards",
    "count_records",
    "feature_spec",
    "find_shards",
    "first_record_length",
    "frame",
    "parse_batch",
    "parse_example",
    "read_manifest",
    "read_records",
    "serialize_example",
    "shard_name",
]

FORMAT = "electra_tf.records/1"
KEYS = ("input_ids", "input_mask", "segment_ids")
MANIFEST_NAME = "manifest.json"
SHARD_PATTERN = "pretrain_data.tfrecord-*"


def shard_name(index, number_of_shards):
    return f"pretrain_data.tfrecord-{index}-of-{number_of_shards}"


# ---- one example


def feature_spec(max_seq_length):
    """Returns what `tf.io.parse_example` is to find in a record."""
    import tensorflow as tf

    return {key: tf.io.FixedLenFeature([max_seq_length], tf.int64) for key in KEYS}


def parse_batch(serialized, max_seq_length):
    """Parses serialized examples.

    Shapes:
        serialized: string [B]
        returns: input_ids, input_mask, segment_ids, int32 [B, L]
    """
    import tensorflow as tf

    parsed = tf.io.parse_example(serialized, feature_spec(max_seq_length))
    return {key: tf.cast(value, tf.int32) for key, value in parsed.items()}


def parse_example(data, where="the record"):
    """Returns the three lists of one serialized example as Python ints."""
    try:
        features = decode_example(data)
    except ValueError:
        features = {}
    missing = [key for key in KEYS if key not in features]
    if missing:
        found = ", ".join(sorted(features)) or "none"
        raise InputError(
            f"{where} isn't a pre-training example: it has no {missing[0]!r} "
            f"(features found: {found})"
        )
    return {key: features[key] for key in KEYS}


def first_record_length(path):
    """Returns the number of ids in a shard's first record, None in an empty shard."""
    for data in read_records(path):
        example = parse_example(data, where=f"the first record of {path}")
        lengths = {key: len(values) for key, values in example.items()}
        if len(set(lengths.values())) > 1:
            raise InputError(f"the first record of {path} is uneven: {lengths}")
        return lengths["input_ids"]
    return None


# ---- a folder of shards and its manifest


@dataclasses.dataclass
class Manifest:
    """What is in a folder of shards, and how it was made."""

    max_seq_length: int
    settings: dict
    tokenizer: dict  # do_lower_case, strip_accents
    vocabulary: dict  # size, sha256
    counts: dict  # documents, lines, tokens_read, tokens_kept, examples
    shards: list  # of {name, records, bytes, sha256}
    format: str = FORMAT

    def write(self, folder):
        replace_file(self.prepare(folder), os.path.join(folder, MANIFEST_NAME))

    def prepare(self, folder):
        """Writes the file under a temporary name, which is returned."""
        path = os.path.join(folder, MANIFEST_NAME + UNFINISHED)
        with open_file(path, "w") as stream:
            stream.write(json.dumps(dataclasses.asdict(self), indent=1) + "\n")
        return path


def read_manifest(folder):
    """Returns the manifest of a folder, None where there is none."""
    path = os.path.join(folder, MANIFEST_NAME)
    if not file_exists(path):
        return None
    try:
        with open_file(path, "r") as stream:
            content = json.loads(stream.read())
        if content.get("format") != FORMAT:
            raise InputError(
                f"{path} has the format {content.get('format')!r}, wanted {FORMAT!r}"
            )
        return Manifest(**content)
    except (ValueError, TypeError, AttributeError) as error:
        raise InputError(f"{path} isn't a manifest of records: {error}") from error


def find_shards(pattern_or_folder):
    """Returns the shards of a folder or glob pattern in natural order (2 before 10).

    A manifest in the folder says which files belong to it.
    """
    pattern = os.fspath(pattern_or_folder)
    if is_folder(pattern):
        manifest = read_manifest(pattern)
        if manifest:
            return [os.path.join(pattern, shard["name"]) for shard in manifest.shards]
        pattern = os.path.join(glob.escape(pattern), SHARD_PATTERN)
    found = [f for f in list_files(pattern) if not f.endswith((UNFINISHED, ".json"))]
    if not found:
        raise InputError(
            f"no records match {pattern!r}: check the path, or build them with "
            "tfrecords_tools.build_pretraining_dataset"
        )
    return sorted(found, key=_natural)


def check_shards(shards, manifest=None, max_seq_length=None):
    """Finds missing, truncated, foreign and wrongly sized shards in milliseconds.

    Sizes are compared with the manifest, and the first record of each shard is
    parsed; `count_records` is the full check where there is no manifest.

    Args:
        shards: a folder, a pattern or a list of paths.
        manifest: what the folder should hold; None checks the first records only.
        max_seq_length: the length that the run wants; None takes any.
    """
    if isinstance(shards, (str, os.PathLike)):
        shards = find_shards(shards)
    expected = {s["name"]: s for s in manifest.shards} if manifest else {}
    missing = expected.keys() - {os.path.basename(path) for path in shards}
    missing |= {os.path.basename(path) for path in shards if not file_exists(path)}
    if missing:
        name = min(missing, key=_natural)
        raise InputError(
            f"{len(missing)} of the shards are missing, {name} among them: copy or "
            "build the records again"
        )
    for path in shards:
        shard = expected.get(os.path.basename(path))
        if shard and file_size(path) != shard["bytes"]:
            raise InputError(
                f"the shard {path} has {file_size(path)} bytes, its manifest says "
                f"{shard['bytes']}: it is truncated or changed; copy or build it again"
            )
        length = first_record_length(path)
        if length is not None and max_seq_length not in (None, length):
            raise InputError(
                f"the records of {path} are {length} tokens long, but the run wants "
                f"max_seq_length {max_seq_length}: set it to {length} or build the "
                "records again"
            )


def _natural(path):
    return [int(t) if t.isdigit() else t for t in re.split(r"(\d+)", os.fspath(path))]
