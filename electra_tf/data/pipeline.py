"""Shards to batches: an order that is a function of (seed, step), each record once.

In every epoch the shards are put into a new order and taken in groups of
`shuffle_shards`; the records of a group are shuffled together in memory. Batches run on
across epochs. Nothing of this needs to be saved: where a run resumes follows from its
step and from the number of records per shard, and skips whole groups unread.
"""

import dataclasses
import hashlib
import json
import os

from electra_tf.data import records
from electra_tf.errors import InputError
from electra_tf.files import UNFINISHED, file_size, open_file, replace_file

COUNTS_NAME = "record_counts.json"


@dataclasses.dataclass(frozen=True)
class Shards:
    """Paths, records per shard, their length, the manifest where there is one."""

    paths: tuple
    counts: tuple
    max_seq_length: int
    manifest: records.Manifest | None = None

    @property
    def num_records(self):
        return sum(self.counts)


def open_shards(pattern, max_seq_length):
    """Finds, checks and counts the shards that a pattern or folder names.

    Records without a manifest (the original's) are counted once, by their headers,
    and the counts kept beside them where that folder can be written to.

    Raises:
        InputError: none found, one truncated or foreign, or of another length.
    """
    paths = records.find_shards(pattern)
    folders = sorted({os.path.dirname(path) for path in paths})
    if not folders:
        raise InputError(f"the manifest in {pattern!r} names no shards")
    if len(folders) > 1:
        raise InputError(
            f"{pattern!r} matches records in {folders[0]} and {folders[-1]}: put the "
            "shards of a run into one folder"
        )
    folder = folders[0]
    manifest = records.read_manifest(folder)
    records.check_shards(paths, manifest, max_seq_length)
    if manifest is not None:
        by_name = {shard["name"]: shard["records"] for shard in manifest.shards}
        unknown = [p for p in paths if os.path.basename(p) not in by_name]
        if unknown:
            raise InputError(
                f"{unknown[0]} is not in the manifest of its folder: remove it, or "
                f"remove {os.path.join(folder, records.MANIFEST_NAME)}"
            )
        counts = [by_name[os.path.basename(p)] for p in paths]
    else:
        counts = _counted_once(paths, folder)
    if not sum(counts):
        raise InputError(f"no records in the {len(paths)} files that match {pattern!r}")
    return Shards(tuple(paths), tuple(counts), max_seq_length, manifest)


def _counted_once(paths, folder):
    place, known = os.path.join(folder, COUNTS_NAME), {}
    try:
        with open_file(place, "r") as stream:
            known = json.loads(stream.read())
    except (OSError, ValueError):
        pass  # not counted yet
    counts, fresh = [], {}
    for path in paths:
        name, size = os.path.basename(path), file_size(path)
        entry = known.get(name) if isinstance(known, dict) else None
        valid = isinstance(entry, dict) and isinstance(entry.get("records"), int)
        if not valid or entry.get("bytes") != size:
            entry = {"bytes": size, "records": records.count_records(path)}
        fresh[name] = entry
        counts.append(entry["records"])
    if fresh != known:
        try:
            with open_file(place + UNFINISHED, "w") as stream:
                stream.write(json.dumps(fresh, indent=1))
            replace_file(place + UNFINISHED, place)
        except OSError:
            pass  # a read-only data folder: count again next time
    return counts


def group_order(num_shards, seed, epoch, shuffle_shards):
    """The groups of shard numbers of one epoch, in reading order.

    The order comes from a hash, so that it never changes with a library's version.
    """

    def key(shard):
        return hashlib.blake2b(f"{seed}/{epoch}/{shard}".encode()).digest()

    order = sorted(range(num_shards), key=key)
    return [order[i : i + shuffle_shards] for i in range(0, num_shards, shuffle_shards)]


def groups_from(counts, seed, position, shuffle_shards):
    """Yields (shard numbers, their records, seed, records to skip) from a position.

    Args:
        position: number of records already used, counted over all epochs
    """
    per_epoch = sum(counts)
    epoch, skip = divmod(position, per_epoch)
    while True:
        groups = group_order(len(counts), seed, epoch, shuffle_shards)
        for number, group in enumerate(groups):
            size = sum(counts[shard] for shard in group)
            if skip >= size:
                skip -= size
                continue
            yield group, size, (seed, (epoch << 20) + number), skip
            skip = 0
        epoch += 1


def training_dataset(
    shards,
    *,
    max_seq_length,
    global_batch_size,
    seed,
    start_step=0,
    shuffle_shards=16,
    num_replicas=1,
    pipeline=0,
    num_pipelines=1,
):
    """The endless batches of training from `start_step` on.

    Args:
        num_replicas: over all machines; a dataset element is one replica's batch
        pipeline, num_pipelines: which host this is of how many; each host reads all
            records and keeps its rows of every global batch
    Shapes:
        each element: dict of input_ids, input_mask, segment_ids, int32
            [global_batch_size / num_replicas, max_seq_length], and row, int32
            [global_batch_size / num_replicas], the example's row in the global batch
    """
    import tensorflow as tf

    paths = list(shards.paths)

    def groups():
        position = start_step * global_batch_size
        for group, size, key, skip in groups_from(
            shards.counts, seed, position, shuffle_shards
        ):
            yield [paths[shard] for shard in group], size, key, skip

    def load(names, size, key, skip):
        read = tf.data.TFRecordDataset(names).batch(size).get_single_element()
        with tf.control_dependencies(
            [tf.debugging.assert_equal(tf.size(read, tf.int64), size, CHANGED)]
        ):
            order = tf.random.experimental.stateless_shuffle(
                tf.range(size), seed=key, alg="philox"
            )
        return tf.gather(read, order[skip:])

    signature = (
        tf.TensorSpec([None], tf.string),
        tf.TensorSpec([], tf.int64),
        tf.TensorSpec([2], tf.int64),
        tf.TensorSpec([], tf.int64),
    )
    stream = tf.data.Dataset.from_generator(groups, output_signature=signature)
    stream = stream.map(load).prefetch(1)
    stream = stream.flat_map(tf.data.Dataset.from_tensor_slices)
    stream = stream.batch(global_batch_size, drop_remainder=True)
    return _shares(
        stream, max_seq_length, global_batch_size, num_replicas, pipeline, num_pipelines
    )


CHANGED = "the number of records in a shard is not what it was when it was counted"


def evaluation_dataset(
    shards,
    *,
    max_seq_length,
    global_batch_size,
    num_replicas=1,
    pipeline=0,
    num_pipelines=1,
):
    """One pass over every record, in order; the last batch is filled with padding.

    Shapes: as in `training_dataset`; a filling row has input_mask 0 throughout
    """
    import tensorflow as tf

    stream = tf.data.TFRecordDataset(list(shards.paths)).batch(global_batch_size)

    def parse(serialized):
        missing = global_batch_size - tf.size(serialized)
        batch = records.parse_batch(serialized, max_seq_length)
        padded = {k: tf.pad(v, [[0, missing], [0, 0]]) for k, v in batch.items()}
        return {
            k: tf.ensure_shape(v, [global_batch_size, max_seq_length])
            for k, v in padded.items()
        }

    return _shares(
        stream,
        max_seq_length,
        global_batch_size,
        num_replicas,
        pipeline,
        num_pipelines,
        parse,
    )


def _shares(
    stream, length, global_batch_size, num_replicas, pipeline, num_pipelines, parse=None
):
    """Cuts global batches into the consecutive shares of this host's replicas."""
    import tensorflow as tf

    if global_batch_size % num_replicas:
        raise InputError(
            f"the global batch of {global_batch_size} examples can't be shared evenly "
            f"by {num_replicas} replicas: choose a multiple of {num_replicas}"
        )
    share = global_batch_size // num_replicas
    local = num_replicas // num_pipelines
    first = pipeline * local * share
    rows = tf.range(global_batch_size)

    def shares(serialized):
        if parse is None:
            mine = serialized[first : first + local * share]
            batch = records.parse_batch(mine, length)
        else:
            batch = {
                k: v[first : first + local * share]
                for k, v in parse(serialized).items()
            }
        batch = {k: tf.reshape(v, [local, share, length]) for k, v in batch.items()}
        mine = rows[first : first + local * share]
        return batch | {"row": tf.reshape(mine, [local, share])}

    stream = stream.map(shares, num_parallel_calls=tf.data.AUTOTUNE)
    if local == 1:
        stream = stream.map(lambda batch: {k: v[0] for k, v in batch.items()})
    else:
        stream = stream.flat_map(tf.data.Dataset.from_tensor_slices)
    return stream.prefetch(tf.data.AUTOTUNE)


def name_damaged_shard(shards):
    """Reads all records to find what stopped a run.

    Returns: path and damage of the first shard that isn't whole; None if all are.
    """
    import tensorflow as tf

    for path, count in zip(shards.paths, shards.counts):
        found = 0
        try:
            for some in tf.data.TFRecordDataset(path).batch(256):
                records.parse_batch(some, shards.max_seq_length)
                found += len(some)
        except (tf.errors.DataLossError, tf.errors.InvalidArgumentError,
                tf.errors.NotFoundError) as error:  # fmt: skip
            # The message follows the names of TensorFlow's operations in braces.
            return path, error.message.split("}} ")[-1].splitlines()[0]
        if found != count:
            return path, f"{found} records where {count} were counted"
    return None
