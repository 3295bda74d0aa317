"""Records shown as text."""

import os
import pathlib
import subprocess
import sys

import pytest

from electra_tf.data import records
from electra_tf.data.dataset_builder import BuilderSettings, build
from electra_tf.errors import InputError
from tfrecords_tools.inspect_records import histogram, inspect, merge_pieces

ROOT = pathlib.Path(__file__).parent.parent
TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "river", "##s", "fall"]


@pytest.fixture
def folder(tmp_path):
    """Records of ten documents, with vocab.txt in the folder above."""
    (tmp_path / "vocab.txt").write_text("\n".join(TOKENS) + "\n")
    text = "\n\n".join(["a river falls"] * 10)
    (tmp_path / "text.txt").write_text(text)
    settings = BuilderSettings(max_seq_length=8)
    out = tmp_path / "pretrain_tfrecords"
    build(tmp_path / "text.txt", tmp_path / "vocab.txt", out, settings)
    return out


def test_pieces_are_merged_to_words():
    assert merge_pieces(["a", "river", "##s", "fall", "##s"]) == "a rivers falls"


def test_examples_are_shown_with_their_length_and_text(folder):
    lines = list(inspect(folder, num_examples=2, skip=3))
    assert "record 3: 6 of 8 tokens" in lines
    assert lines.count("  a: [CLS] a river falls [SEP]") == 2
    assert "10 documents" in lines[1]


def test_two_segments_are_shown_on_two_lines(folder):
    example = {
        "input_ids": [2, 5, 3, 6, 3, 0, 0, 0],
        "input_mask": [1, 1, 1, 1, 1, 0, 0, 0],
        "segment_ids": [0, 0, 0, 1, 1, 0, 0, 0],
    }
    path = folder.parent / "other-records"
    with records.ShardWriter(path) as writer:
        writer.write(records.serialize_example(example))
    lines = list(inspect(path, folder.parent / "vocab.txt"))
    assert lines[0] == "1 shards without a manifest"
    assert lines[3:5] == ["  a: [CLS] a [SEP]", "  b: river [SEP]"]


def test_the_histogram_counts_every_length_once():
    line = histogram([1, 16, 17, 128, 128], 128)
    assert "1-16: 2  17-32: 1  33-48: 0" in line
    assert line.endswith("113-128: 2")


def test_records_of_another_vocabulary_are_refused(folder, tmp_path):
    other = tmp_path / "other.txt"
    other.write_text("\n".join(TOKENS[:6]) + "\n")
    with pytest.raises(InputError, match="another vocabulary"):
        list(inspect(folder, other))
    (folder / "manifest.json").unlink()
    with pytest.raises(InputError, match="has the id 8"):
        list(inspect(folder, other))


def test_a_skip_beyond_the_last_record_is_an_error(folder):
    with pytest.raises(InputError, match="no record number 10"):
        list(inspect(folder, skip=10))


def test_the_command_names_a_truncated_shard_in_one_line(folder):
    path = folder / records.shard_name(0, 1)
    path.write_bytes(path.read_bytes()[:20])
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "tfrecords_tools.inspect_records",
            f"--records={folder}",
        ],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("error: ") and "truncated" in done.stderr
    assert done.stderr.count("\n") == 1
