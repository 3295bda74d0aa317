"""Records, shards and their manifest, ours read by TensorFlow and back."""

import numpy as np
import pytest
import tensorflow as tf

from electra_tf.data import records
from electra_tf.errors import InputError

LENGTH = 6


def example(start=1000, length=LENGTH):
    return {
        "input_ids": list(range(start, start + length)),
        "input_mask": [1] * (length - 1) + [0],
        "segment_ids": [0] * (length - 2) + [1, 0],
    }


def write_shard(path, number, length=LENGTH):
    writer = records.ShardWriter(path)
    for i in range(number):
        writer.write(records.serialize_example(example(i * 300, length)))
    return writer.close()


@pytest.fixture
def folder(tmp_path):
    """Two shards of 3 and 2 records with their manifest."""
    shards = [
        write_shard(tmp_path / records.shard_name(i, 2), number)
        for i, number in enumerate((3, 2))
    ]
    records.Manifest(
        max_seq_length=LENGTH,
        settings={"seed": 1},
        tokenizer={"do_lower_case": True, "strip_accents": True},
        vocabulary={"size": 10, "sha256": "0"},
        counts={"examples": 5},
        shards=shards,
    ).write(tmp_path)
    return tmp_path


def check(folder, **wanted):
    records.check_shards(folder, records.read_manifest(folder), **wanted)


def test_tensorflow_reads_what_we_write(folder):
    path = folder / records.shard_name(0, 2)
    serialized = list(tf.data.TFRecordDataset(str(path)).as_numpy_iterator())
    batch = records.parse_batch(tf.constant(serialized), LENGTH)
    for key in records.KEYS:
        assert batch[key].dtype == tf.int32
        expected = [example(i * 300)[key] for i in range(3)]
        np.testing.assert_array_equal(batch[key], expected)


def test_our_message_is_the_one_that_tensorflow_makes():
    values = example(start=0) | {"input_ids": [0, 1, 127, 128, 16384, 2**21]}
    features = {
        key: tf.train.Feature(int64_list=tf.train.Int64List(value=value))
        for key, value in values.items()
    }
    message = tf.train.Example(features=tf.train.Features(feature=features))
    ours = records.serialize_example(values)
    assert ours == message.SerializeToString(deterministic=True)
    assert records.parse_example(ours) == values


def test_our_frame_is_the_one_that_tensorflow_writes(tmp_path):
    contents = [b"", b"a", b"123456789", bytes(range(256)) * 3]
    path = str(tmp_path / "theirs")
    with tf.io.TFRecordWriter(path) as writer:
        for data in contents:
            writer.write(data)
    framed = b"".join(map(records.frame, contents))
    assert (tmp_path / "theirs").read_bytes() == framed
    assert list(records.read_records(path)) == contents


def test_records_are_counted_without_being_read(folder):
    assert records.count_records(folder / records.shard_name(0, 2)) == 3


def test_a_shard_has_no_name_before_it_is_complete(tmp_path):
    with pytest.raises(RuntimeError):
        with records.ShardWriter(tmp_path / "shard") as writer:
            writer.write(b"data")
            raise RuntimeError
    assert list(tmp_path.iterdir()) == []


def test_the_manifest_is_read_as_it_was_written(folder):
    manifest = records.read_manifest(folder)
    assert [shard["records"] for shard in manifest.shards] == [3, 2]
    assert manifest.format == "electra_tf.records/1"
    assert records.read_manifest(folder / "elsewhere") is None


@pytest.mark.parametrize("content", ["{", "[]", '{"format": "x"}', "{}"])
def test_a_manifest_of_another_kind_is_refused(tmp_path, content):
    (tmp_path / "manifest.json").write_text(content)
    with pytest.raises(InputError, match="manifest.json"):
        records.read_manifest(tmp_path)


def test_shards_come_in_natural_order(tmp_path):
    for i in (10, 9, 1):
        write_shard(tmp_path / records.shard_name(i, 11), 1)
    found = [path.rsplit("-", 3)[1] for path in records.find_shards(tmp_path)]
    assert found == ["1", "9", "10"]
    assert len(records.find_shards(str(tmp_path / "*-1?-of-*"))) == 1


def test_a_pattern_without_a_match_is_an_error(tmp_path):
    with pytest.raises(InputError, match="no records match"):
        records.find_shards(tmp_path / "nothing*")


def test_whole_shards_pass_the_check(folder):
    check(folder, max_seq_length=LENGTH)


def test_a_missing_shard_is_named(folder):
    (folder / records.shard_name(1, 2)).unlink()
    with pytest.raises(InputError, match="tfrecord-1-of-2"):
        check(folder)


def test_a_truncated_shard_is_named_before_anything_is_read(folder):
    path = folder / records.shard_name(1, 2)
    path.write_bytes(path.read_bytes()[:-50])
    with pytest.raises(InputError, match="tfrecord-1-of-2.*truncated"):
        check(folder)
    with pytest.raises(InputError, match="tfrecord-1-of-2.*truncated"):
        records.count_records(path)


def test_records_of_another_length_are_refused_with_both_lengths(folder):
    with pytest.raises(InputError, match="are 6 tokens long.*max_seq_length 512"):
        check(folder, max_seq_length=512)


def test_a_file_of_text_is_not_taken_for_records(tmp_path):
    path = tmp_path / "pretrain_data.tfrecord-0-of-1"
    path.write_text("This is a line of text, and not a record.\n")
    with pytest.raises(InputError, match="isn't a TFRecord file"):
        records.check_shards(tmp_path)


@pytest.mark.parametrize("data", [b"\xff\xff", tf.train.Example().SerializeToString()])
def test_records_of_another_kind_are_refused(tmp_path, data):
    path = tmp_path / "pretrain_data.tfrecord-0-of-1"
    path.write_bytes(records.frame(data))
    with pytest.raises(InputError, match="isn't a pre-training example"):
        records.check_shards(tmp_path)


def test_an_empty_shard_has_no_first_record(tmp_path):
    write_shard(tmp_path / "shard", 0)
    assert records.first_record_length(tmp_path / "shard") is None
    records.check_shards([tmp_path / "shard"], max_seq_length=LENGTH)
