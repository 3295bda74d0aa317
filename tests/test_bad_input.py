"""Bad input to run_pretraining: one clear line, status 1, nothing written."""

import io
import json
import os
from contextlib import redirect_stderr, redirect_stdout

import pytest

from electra_tf import command_line, run_pretraining
from electra_tf.data.packing import pack
from electra_tf.data.records import Manifest, ShardWriter, serialize_example
from electra_tf.data.tokenization import Vocabulary

SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
PIECES = [*SPECIALS, *(f"w{i}" for i in range(20))]
HPARAMS = {
    "model_size": "tiny",
    "max_seq_length": 16,
    "num_train_steps": 2,
    "train_batch_size": 4,
}


@pytest.fixture(scope="module")
def parsed_flags():
    run_pretraining.define_flags()
    run_pretraining.FLAGS(["run_pretraining"])


@pytest.fixture
def data_dir(tmp_path):
    """A data folder in which everything is right."""
    (tmp_path / "vocab.txt").write_text("\n".join(PIECES) + "\n")
    write_records(tmp_path / "pretrain_tfrecords")
    write_records(tmp_path / "eval_tfrecords")
    return tmp_path


def write_records(folder, length=16, count=8, vocabulary=PIECES, lower=True):
    folder.mkdir()
    example = pack([5, 6, 7], [8, 9], length, 2, 3)
    with ShardWriter(folder / "pretrain_data.tfrecord-0-of-1") as writer:
        for _ in range(count):
            writer.write(serialize_example(example))
        entry = writer.finish()
    Manifest(
        max_seq_length=length,
        settings={},
        tokenizer={"do_lower_case": lower, "strip_accents": lower},
        vocabulary={"size": len(vocabulary), "sha256": Vocabulary(vocabulary).sha256},
        counts={},
        shards=[entry],
    ).write(str(folder))


def files_below(folder):
    return {
        os.path.join(root, name): os.path.getsize(os.path.join(root, name))
        for root, _, names in os.walk(folder)
        for name in names
    }


def outcome(data_dir, changes=None, **flags):
    """Status and error line of the command, run in this process."""
    values = {
        "data_dir": str(data_dir),
        "model_name": "m",
        "hparams": json.dumps(HPARAMS | (changes or {})),
        "deterministic": False,
        "config": None,
        "strategy": "one_device",
        "profile_steps": None,
        "logical_cpus": 0,
    } | flags
    for name, value in values.items():
        setattr(run_pretraining.FLAGS, name, value)
    before, errors = files_below(data_dir), io.StringIO()
    with redirect_stderr(errors), redirect_stdout(io.StringIO()):
        status = command_line._guarded(run_pretraining.main, [])
    assert files_below(data_dir) == before, "something was written"
    lines = errors.getvalue().strip().splitlines()
    assert status == 1 and len(lines) == 1 and lines[0].startswith("error: "), lines
    return lines[0]


def vocabulary_file(data_dir, pieces):
    (data_dir / "vocab.txt").write_text("\n".join(pieces) + "\n")


def shard(data_dir):
    return data_dir / "pretrain_tfrecords" / "pretrain_data.tfrecord-0-of-1"


def cut_shard(data_dir):
    shard(data_dir).write_bytes(shard(data_dir).read_bytes()[:-50])


def foreign_record(data_dir):
    os.remove(data_dir / "pretrain_tfrecords" / "manifest.json")
    with ShardWriter(shard(data_dir)) as writer:
        writer.write(serialize_example({"label": [1]}))


def other_length(data_dir):
    os.rename(data_dir / "pretrain_tfrecords", data_dir / "old")
    write_records(data_dir / "pretrain_tfrecords", length=12)


def no_records(data_dir):
    os.rename(data_dir / "pretrain_tfrecords", data_dir / "elsewhere")


def other_vocabulary(data_dir):
    vocabulary_file(data_dir, [*SPECIALS, *(f"v{i}" for i in range(20))])


FILES = {
    "no records match": no_records,
    "truncated": cut_shard,
    "isn't a pre-training example": foreign_record,
    "12 tokens long, but the run wants max_seq_length 16": other_length,
    "built with another vocabulary": other_vocabulary,
    "SentencePiece": lambda d: vocabulary_file(d, ["▁the", "▁cat"]),
    "[MASK]": lambda d: vocabulary_file(d, [*SPECIALS[:4], "a"]),
    "w1": lambda d: vocabulary_file(d, [*PIECES, "w1"]),
    "vocab.txt": lambda d: os.remove(d / "vocab.txt"),
}


@pytest.mark.parametrize("message", FILES)
def test_files_that_can_not_be_used_are_named(parsed_flags, data_dir, message):
    FILES[message](data_dir)
    assert message in outcome(data_dir)


VALUES = {
    "did you mean 'learning_rate'": {"learning_rat": 1e-3},
    "num_train_steps in --hparams must be int, got str": {"num_train_steps": "20"},
    "longer than the position table": {"max_seq_length": 600},
    "do_lower_case is False": {"do_lower_case": False},
    "vocab_size is 7": {"vocab_size": 7},
    "temperature must be at least 0.001": {"temperature": 1e-6},
    "gen_weight must be at most": {"gen_weight": 1e300},
    "num_train_steps must be at most": {"num_train_steps": 1e308},
    "vocab_size must be at most": {"vocab_size": 10**9},
    "hidden_size must be at most": {"model_hparam_overrides": {"hidden_size": 10**9}},
    "model_dir must not be empty": {"model_dir": ""},
}


@pytest.mark.parametrize("message", VALUES)
def test_values_that_can_not_be_used_are_named(parsed_flags, data_dir, message):
    assert message in outcome(data_dir, VALUES[message])


@pytest.mark.parametrize(
    "message, flags",
    [
        ("--strategy must be one of", {"strategy": "everything"}),
        ("--profile_steps must be FIRST,LAST", {"profile_steps": "5"}),
        ("no_such.toml can't be read", {"config": "no_such.toml"}),
        ("plain folder name", {"model_name": "../up"}),
        ("--model_name is missing", {"model_name": None}),
        ("--hparams is empty", {"hparams": " "}),
        ("not valid JSON", {"hparams": '{"a": ' + "[" * 100_000}),
        ("--profile_steps must be FIRST,LAST", {"profile_steps": "²,³"}),
        ("--logical_cpus must be 0 or more", {"logical_cpus": -1}),
        ("neither a JSON object nor a readable file", {"hparams": "nowhere.json"}),
    ],
)
def test_flags_that_can_not_be_used_are_named(parsed_flags, data_dir, message, flags):
    assert message in outcome(data_dir, **flags)


def test_evaluating_a_model_that_was_never_trained_is_an_error(parsed_flags, data_dir):
    line = outcome(data_dir, {"do_train": False, "do_eval": True})
    assert "no checkpoint in" in line


def test_evaluating_without_evaluation_records_is_an_error(parsed_flags, data_dir):
    os.rename(data_dir / "eval_tfrecords", data_dir / "elsewhere")
    assert "no records match" in outcome(data_dir, {"do_eval": True})
