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
import reprlib

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
        manifest = Manifest(**content)
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(f"{path} isn't a manifest of records: {error}") from error
    wrong = next(_violations(manifest), None)
    if wrong:
        raise InputError(f"{path} isn't a manifest of records: {wrong}")
    return manifest


def _violations(manifest):
    """Yields what a manifest's values are that they mustn't be."""

    def is_count(value):
        return type(value) is int and value >= 0

    def is_text(value):
        return isinstance(value, str)

    def is_file_name(value):
        return is_text(value) and not re.search(r"[/\\\0]|^\.{0,2}$", value)

    def check(where, found, **wanted):
        if not isinstance(found, dict):
            yield f"{where} is {_shortened(found)}, wanted an object"
            return
        for key, (is_valid, description) in wanted.items():
            if key not in found:
                yield f"{where} has no {key!r}"
            elif not is_valid(found[key]):
                got = _shortened(found[key])
                yield f"{key} in {where} is {got}, wanted {description}"

    count = (is_count, "a whole number from 0")
    text = (is_text, "a text")
    length = manifest.max_seq_length
    if not is_count(length) or not length:
        yield f"max_seq_length is {_shortened(length)}, wanted a whole number from 1"
    yield from check("settings", manifest.settings)
    yield from check(
        "tokenizer",
        manifest.tokenizer,
        do_lower_case=(lambda v: isinstance(v, bool), "true or false"),
        # Null is what do_lower_case is.
        strip_accents=(lambda v: v is None or isinstance(v, bool), "true or false"),
    )
    yield from check("vocabulary", manifest.vocabulary, size=count, sha256=text)
    yield from check("counts", manifest.counts)
    yield from check("counts", manifest.counts, **dict.fromkeys(manifest.counts, count))
    if not isinstance(manifest.shards, list):
        yield f"shards is {_shortened(manifest.shards)}, wanted a list"
        return
    for number, shard in enumerate(manifest.shards):
        yield from check(
            f"shards[{number}]",
            shard,
            name=(is_file_name, "the name of a file beside the manifest"),
            records=count,
            bytes=count,
            sha256=text,
        )


def _shortened(value):
    return reprlib.repr(value)


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

    Sizes are compared with the manifest, or without one the numbers in the shards'
    names with each other, and the first record of each shard is parsed;
    `count_records` is the full check where there is no manifest.

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
    if manifest is None:
        _check_numbers(shards)
    for path in shards:
        shard = expected.get(os.path.basename(path))
        if shard and file_size(path) != shard["bytes"]:
            raise InputError(
                f"the shard {path} has {file_size(path)} bytes, its manifest says "
                f"{shard['bytes']}: it is truncated or changed; copy or build it again"
            )
        length = first_record_length(path)
        if manifest and length not in (None, manifest.max_seq_length):
            raise InputError(
                f"the records of {path} are {length} tokens long, its manifest says "
                f"max_seq_length {manifest.max_seq_length}: build the records again"
            )
        if length is not None and max_seq_length not in (None, length):
            raise InputError(
                f"the records of {path} are {length} tokens long, but the run wants "
                f"max_seq_length {max_seq_length}: set it to {length} or build the "
                "records again"
            )


def _check_numbers(shards):
    """Finds gaps by names alone: where there is a 0-of-2, there is to be a 1-of-2."""
    sets = {}
    for path in shards:
        found = re.fullmatch(r"(.*-)\d+-of-(\d+)", os.fspath(path), re.DOTALL)
        if found:
            sets.setdefault(found.groups(), set()).add(os.fspath(path))
    for (start, total), present in sets.items():
        for i in range(int(total)):
            path = f"{start}{i}-of-{total}"
            if path not in present and not file_exists(path):
                raise InputError(
                    f"the shard {path} is missing: copy or build the records again"
                )


def _natural(path):
    return [int(t) if t.isdigit() else t for t in re.split(r"(\d+)", os.fspath(path))]
