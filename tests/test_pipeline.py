"""The order of records is a function of (seed, step); damage is found at the door.

Record number i holds the ids [i, i, i, i], so that a batch tells what is in it.
"""

import collections
import json
import os

import numpy as np
import pytest
import tensorflow as tf

from electra_tf.data import pipeline, records
from electra_tf.errors import InputError

LENGTH = 4
COUNTS = (3, 5, 2, 4, 3)  # 17 records, a prime number: batches never fit an epoch


def serialized(number, length=LENGTH):
    return records.serialize_example(
        {
            "input_ids": [number] * length,
            "input_mask": [1] * length,
            "segment_ids": [0] * length,
        }
    )


def write_shards(folder, counts=COUNTS, length=LENGTH):
    folder.mkdir(exist_ok=True)
    number, entries = 0, []
    for i, count in enumerate(counts):
        writer = records.ShardWriter(folder / records.shard_name(i, len(counts)))
        for _ in range(count):
            writer.write(serialized(number, length))
            number += 1
        entries.append(writer.close())
    return entries


def write_manifest(folder, entries):
    records.Manifest(
        max_seq_length=LENGTH,
        settings={},
        tokenizer={"do_lower_case": True, "strip_accents": None},
        vocabulary={"size": 10, "sha256": "0"},
        counts={},
        shards=entries,
    ).write(folder)


@pytest.fixture
def bare(tmp_path):
    """Records without a manifest, as the original's builder leaves them."""
    write_shards(tmp_path / "records")
    return tmp_path / "records"


@pytest.fixture
def folder(tmp_path):
    """The same records with their manifest."""
    write_manifest(tmp_path / "records", write_shards(tmp_path / "records"))
    return tmp_path / "records"


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shards") / "records"
    write_manifest(folder, write_shards(folder))
    return pipeline.open_shards(folder, LENGTH)


def shard(folder, i=1):
    return folder / records.shard_name(i, len(COUNTS))


def elements(shards, number, batch=4, seed=1, **options):
    dataset = pipeline.training_dataset(
        shards, max_seq_length=LENGTH, global_batch_size=batch, seed=seed, **options
    )
    return list(dataset.take(number).as_numpy_iterator())


def steps(shards, number, **options):
    """What is in each of the first batches: a list of lists of record numbers."""
    return [e["input_ids"][:, 0].tolist() for e in elements(shards, number, **options)]


def flat(batches):
    return [number for batch in batches for number in batch]


def error(function, *arguments):
    with pytest.raises(InputError) as caught:
        function(*arguments)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def cannot_open(pattern, length=LENGTH):
    return error(pipeline.open_shards, pattern, length)


# ---- the order of training


@pytest.mark.parametrize("shuffle_shards", [1, 2, 16])
def test_an_epoch_holds_each_record_once_and_batches_run_on_across_epochs(
    shards, shuffle_shards
):
    # 17 batches of 4 are exactly 4 epochs of 17 records.
    order = flat(steps(shards, 17, shuffle_shards=shuffle_shards))
    epochs = [order[i : i + 17] for i in range(0, 68, 17)]
    for epoch in epochs:
        assert sorted(epoch) == list(range(17))
    assert len({tuple(epoch) for epoch in epochs}) == 4  # each in an order of its own


def test_the_order_is_one_seeds_and_no_others(shards):
    assert steps(shards, 9) == steps(shards, 9)
    assert steps(shards, 9) != steps(shards, 9, seed=2)


def test_records_of_a_group_of_shards_are_mixed(shards):
    first = np.repeat(np.arange(5), COUNTS)  # which shard a record is in
    alone = [first[n] for n in flat(steps(shards, 17, batch=1, shuffle_shards=1))]
    mixed = [first[n] for n in flat(steps(shards, 17, batch=1, shuffle_shards=16))]
    changes = [sum(a != b for a, b in zip(x, x[1:])) for x in (alone, mixed)]
    assert changes[0] == 4 and changes[1] > 4


@pytest.mark.parametrize("shuffle_shards", [1, 2, 16])
def test_a_run_resumed_at_any_step_reads_on_as_if_never_stopped(shards, shuffle_shards):
    options = dict(shuffle_shards=shuffle_shards)
    whole = steps(shards, 12, **options)
    # Epochs end in steps 4 and 8; with one shard a group, groups end in almost all.
    for start in (1, 3, 4, 6, 9):
        resumed = steps(shards, 12 - start, start_step=start, **options)
        assert resumed == whole[start:], start


def test_an_epoch_with_five_interruptions_holds_each_record_once(shards):
    stops = [0, 1, 4, 5, 11, 16, 17]
    order = []
    for start, stop in zip(stops, stops[1:]):
        order += flat(steps(shards, stop - start, batch=1, start_step=start))
    assert collections.Counter(order) == collections.Counter(range(17))


def test_resuming_a_million_epochs_later_is_immediate(shards):
    late = 17 * 10**6  # the first step of an epoch, for any batch
    order = flat(steps(shards, 17, batch=1, start_step=late))
    assert sorted(order) == list(range(17))


def test_groups_before_the_position_are_not_read(shards):
    counts = (10, 10, 10)
    order = [g for (g,) in pipeline.group_order(3, 1, 0, 1)]
    group, size, key, skip = next(pipeline.groups_from(counts, 1, 25, 1))
    assert (group, size, skip) == ([order[2]], 10, 5)
    assert key == (1, 2)
    group, _, key, skip = next(pipeline.groups_from(counts, 1, 30, 1))  # next epoch
    assert (key, skip) == ((1, 1 << 20), 0)


def test_an_order_once_published_never_changes():
    # Were it to change with a release, no run could be continued across it.
    assert pipeline.group_order(6, seed=1, epoch=0, shuffle_shards=4) == [
        [5, 1, 0, 2],
        [3, 4],
    ]
    assert pipeline.group_order(6, seed=1, epoch=1, shuffle_shards=4) == [
        [1, 5, 3, 4],
        [2, 0],
    ]


def test_a_batch_may_be_larger_than_an_epoch(shards):
    first, second = steps(shards, 2, batch=40)
    assert collections.Counter(first).most_common()[-1][1] == 2  # all of them twice
    seen = collections.Counter(first + second)
    assert set(seen.values()) == {4, 5} and sum(seen.values()) == 80


def test_an_empty_shard_among_others_is_passed_over(tmp_path):
    write_shards(tmp_path / "r", (2, 0, 3))
    shards = pipeline.open_shards(tmp_path / "r", LENGTH)
    assert shards.counts == (2, 0, 3)
    for shuffle_shards in (1, 16):
        order = flat(steps(shards, 10, batch=1, shuffle_shards=shuffle_shards))
        assert sorted(order[:5]) == sorted(order[5:]) == list(range(5))


def test_a_batch_is_what_the_model_takes(shards):
    (element,) = elements(shards, 1)
    assert {k: (v.dtype, v.shape) for k, v in element.items()} == {
        "input_ids": (np.int32, (4, LENGTH)),
        "input_mask": (np.int32, (4, LENGTH)),
        "segment_ids": (np.int32, (4, LENGTH)),
        "row": (np.int32, (4,)),
    }
    dataset = pipeline.training_dataset(
        shards, max_seq_length=LENGTH, global_batch_size=4, seed=1
    )
    assert dataset.element_spec["input_ids"].shape == (4, LENGTH)  # static, for XLA


# ---- replicas and hosts


@pytest.mark.parametrize("replicas", [2, 4])
def test_the_replicas_shares_are_the_global_batch(shards, replicas):
    whole = elements(shards, 6, batch=8)
    shares = elements(shards, 6 * replicas, batch=8, num_replicas=replicas)
    for step, batch in enumerate(whole):
        mine = shares[step * replicas : (step + 1) * replicas]
        for key in batch:
            joined = np.concatenate([share[key] for share in mine])
            np.testing.assert_array_equal(joined, batch[key])
    np.testing.assert_array_equal(whole[0]["row"], range(8))


@pytest.mark.parametrize("replicas", [2, 4])
def test_the_hosts_shares_are_the_global_batch(shards, replicas):
    whole = elements(shards, 5, batch=8)
    local = replicas // 2
    hosts = [
        elements(
            shards, 5 * local, batch=8, num_replicas=replicas, pipeline=host,
            num_pipelines=2,
        )
        for host in range(2)
    ]  # fmt: skip
    for step, batch in enumerate(whole):
        mine = [e for h in hosts for e in h[step * local : (step + 1) * local]]
        for key in batch:
            joined = np.concatenate([share[key] for share in mine])
            np.testing.assert_array_equal(joined, batch[key])


def test_a_batch_that_replicas_cannot_share_evenly_is_refused(shards):
    message = error(lambda: elements(shards, 1, batch=6, num_replicas=4))
    assert "6" in message and "4 replicas" in message


# ---- evaluation


@pytest.mark.parametrize("batch", [1, 4, 17, 40])
def test_evaluation_covers_every_record_once_and_fills_up_with_padding(shards, batch):
    dataset = pipeline.evaluation_dataset(
        shards, max_seq_length=LENGTH, global_batch_size=batch
    )
    seen = list(dataset.as_numpy_iterator())
    ids = np.concatenate([e["input_ids"][:, 0] for e in seen])
    real = np.concatenate([e["input_mask"].any(1) for e in seen])
    assert len(ids) == -(-17 // batch) * batch
    assert ids[:17].tolist() == list(range(17)) and real[:17].all()
    assert not ids[17:].any() and not real[17:].any()


def test_evaluation_on_two_replicas_sees_the_same_rows(shards):
    options = dict(max_seq_length=LENGTH, global_batch_size=6)
    whole = pipeline.evaluation_dataset(shards, **options)
    shared = pipeline.evaluation_dataset(shards, num_replicas=2, **options)
    for key in ("input_ids", "input_mask", "row"):
        joined, expected = (
            np.concatenate([e[key] for e in dataset.as_numpy_iterator()])
            for dataset in (shared, whole)
        )
        np.testing.assert_array_equal(joined, expected)


def test_evaluation_is_one_pass_in_the_same_order_again(shards):
    dataset = pipeline.evaluation_dataset(
        shards, max_seq_length=LENGTH, global_batch_size=4
    )
    first, second = (
        [e["input_ids"][:, 0].tolist() for e in dataset.as_numpy_iterator()]
        for _ in range(2)
    )
    assert first == second


# ---- counting


@pytest.fixture
def counted(monkeypatch):
    """Names of the files whose records were counted, in turn."""
    names = []

    def count(path, original=records.count_records):
        names.append(os.path.basename(path))
        return original(path)

    monkeypatch.setattr(records, "count_records", count)
    return names


def test_a_manifest_saves_counting(folder, counted):
    shards = pipeline.open_shards(folder, LENGTH)
    assert shards.counts == COUNTS and shards.manifest is not None
    assert counted == []
    assert not (folder / pipeline.COUNTS_NAME).exists()


def test_records_without_a_manifest_are_counted_once(bare, counted):
    assert pipeline.open_shards(bare, LENGTH).counts == COUNTS
    assert len(counted) == 5
    again = pipeline.open_shards(bare, LENGTH)
    assert again.counts == COUNTS and again.manifest is None
    assert len(counted) == 5


def test_only_a_shard_whose_size_has_changed_is_counted_again(bare, counted):
    pipeline.open_shards(bare, LENGTH)
    del counted[:]
    with records.ShardWriter(shard(bare)) as writer:
        writer.write(serialized(99))
    assert pipeline.open_shards(bare, LENGTH).counts == (3, 1, 2, 4, 3)
    assert counted == [shard(bare).name]


@pytest.mark.parametrize(
    "content", ["", "{", "[]", '{"pretrain_data.tfrecord-0-of-5": 3}', "\0"]
)
def test_damaged_counts_are_counted_again(bare, content):
    (bare / pipeline.COUNTS_NAME).write_text(content)
    assert pipeline.open_shards(bare, LENGTH).counts == COUNTS
    kept = json.loads((bare / pipeline.COUNTS_NAME).read_text())
    assert [entry["records"] for entry in kept.values()] == list(COUNTS)


def test_counts_without_a_number_are_counted_again(bare):
    size = shard(bare).stat().st_size
    kept = {shard(bare).name: {"bytes": size, "records": None}}
    (bare / pipeline.COUNTS_NAME).write_text(json.dumps(kept))
    assert pipeline.open_shards(bare, LENGTH).counts == COUNTS


def test_a_read_only_folder_is_counted_each_time(bare, counted, monkeypatch):
    def read_only(path, mode, original=pipeline.open_file):
        if "w" in mode:
            raise PermissionError(13, "Permission denied", path)
        return original(path, mode)

    monkeypatch.setattr(pipeline, "open_file", read_only)
    for _ in range(2):
        assert pipeline.open_shards(bare, LENGTH).counts == COUNTS
    assert len(counted) == 10
    assert sorted(p.name for p in bare.iterdir()) == sorted(
        shard(bare, i).name for i in range(5)
    )


# ---- what is wrong with records, before any training


@pytest.mark.parametrize("with_manifest", [False, True])
def test_a_truncated_shard_is_named_before_training(tmp_path, with_manifest):
    folder = tmp_path / "r"
    entries = write_shards(folder)
    if with_manifest:
        write_manifest(folder, entries)
    whole = shard(folder).read_bytes()
    shard(folder).write_bytes(whole[:-5])
    message = cannot_open(folder)
    assert str(shard(folder)) in message and "truncated" in message


def test_a_foreign_tfrecord_is_named_with_what_it_holds(bare):
    feature = tf.train.Feature(int64_list=tf.train.Int64List(value=[1]))
    features = tf.train.Features(feature={"label": feature})
    with tf.io.TFRecordWriter(str(shard(bare))) as writer:
        writer.write(tf.train.Example(features=features).SerializeToString())
    message = cannot_open(bare)
    assert str(shard(bare)) in message and "label" in message


def test_a_file_that_is_no_tfrecord_is_named(bare):
    shard(bare).write_bytes(b"Not records, but a text that someone put here.")
    assert str(shard(bare)) in cannot_open(bare)


def test_records_of_another_length_name_both_lengths(folder):
    message = cannot_open(folder, 512)
    assert "4 tokens long" in message and "max_seq_length 512" in message


def test_no_match_names_the_pattern(tmp_path):
    pattern = str(tmp_path / "pretrain_data.tfrecord*")
    assert pattern in cannot_open(pattern)
    assert str(tmp_path) in cannot_open(tmp_path)  # an empty folder


def test_empty_shards_alone_are_no_records(tmp_path):
    write_shards(tmp_path / "r", (0, 0))
    assert "no records in the 2 files" in cannot_open(tmp_path / "r")


def test_a_manifest_without_shards_is_no_records(tmp_path):
    write_manifest(tmp_path, [])
    assert str(tmp_path) in cannot_open(tmp_path)


@pytest.mark.parametrize("name", ["", "pretrain_data.tfrecord*"])
def test_a_shard_that_only_the_manifest_knows_is_named(folder, name):
    shard(folder).unlink()
    assert shard(folder).name in cannot_open(folder / name)


def test_a_shard_that_the_manifest_does_not_know_is_named(folder):
    extra = folder / records.shard_name(7, 8)
    extra.write_bytes(shard(folder).read_bytes())
    assert str(extra) in cannot_open(folder / "pretrain_data.tfrecord*")


def test_shards_of_two_folders_are_not_taken_for_one(tmp_path):
    # They have the same names: one folder's counts would be taken for the other's.
    write_shards(tmp_path / "a", (2,))
    write_shards(tmp_path / "b", (3,))
    message = cannot_open(tmp_path / "*" / "pretrain_data.tfrecord*")
    assert str(tmp_path / "a") in message and str(tmp_path / "b") in message


# ---- damage that only reading finds


def test_whole_shards_have_no_damage(shards):
    assert pipeline.name_damaged_shard(shards) is None


def test_a_flipped_byte_stops_training_and_its_shard_is_named(folder):
    shards = pipeline.open_shards(folder, LENGTH)
    data = bytearray(shard(folder).read_bytes())
    data[len(data) // 2 + 8] ^= 1  # the size stays
    shard(folder).write_bytes(data)
    assert pipeline.open_shards(folder, LENGTH) == shards  # not found at the door
    with pytest.raises(tf.errors.DataLossError):
        steps(shards, 9)
    path, reason = pipeline.name_damaged_shard(shards)
    assert path == str(shard(folder)) and "corrupted" in reason


@pytest.mark.parametrize("change", [-1, 1])
def test_another_number_of_records_stops_training_and_its_shard_is_named(bare, change):
    shards = pipeline.open_shards(bare, LENGTH)
    with records.ShardWriter(shard(bare)) as writer:
        for number in range(COUNTS[1] + change):
            writer.write(serialized(number))
    with pytest.raises(tf.errors.InvalidArgumentError):
        steps(shards, 9)
    path, reason = pipeline.name_damaged_shard(shards)
    assert path == str(shard(bare))
    assert reason == f"{5 + change} records where 5 were counted"


def test_a_shard_that_has_gone_stops_training_and_is_named(folder):
    shards = pipeline.open_shards(folder, LENGTH)
    shard(folder).unlink()
    with pytest.raises(tf.errors.NotFoundError):
        steps(shards, 9)
    assert pipeline.name_damaged_shard(shards)[0] == str(shard(folder))


def test_a_record_of_another_length_amid_a_shard_stops_training_and_is_named(bare):
    # Two data sets joined by `cat`: the first record is all that the door looks at.
    with records.ShardWriter(shard(bare)) as writer:
        writer.write(serialized(0))
        writer.write(serialized(1, LENGTH + 1))
    shards = pipeline.open_shards(bare, LENGTH)
    with pytest.raises(tf.errors.InvalidArgumentError):
        steps(shards, 9)
    path, reason = pipeline.name_damaged_shard(shards)
    assert path == str(shard(bare))
    assert "Values size: 5" in reason and "{{" not in reason
