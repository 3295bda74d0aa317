"""A corpus to records: complete, the same by any number of processes, or nothing."""

import collections
import errno
import hashlib
import json
import os
import pathlib
import random
import subprocess
import sys

import pytest

from electra_tf.data import dataset_builder, documents, records
from electra_tf.data.dataset_builder import BuilderSettings, build, unreachable_pieces
from electra_tf.data.example_workers import ExampleWorker
from electra_tf.data.tokenization import TokenizerSettings, Vocabulary
from electra_tf.errors import InputError
from tfrecords_tools import build_pretraining_dataset as tool

ROOT = pathlib.Path(__file__).parent.parent
WORDS = "the river rises in a small valley north of its village and falls".split()


@pytest.fixture
def vocab_file(tmp_path):
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ".", *WORDS]
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join(tokens) + "\n")
    return path


@pytest.fixture
def corpus(tmp_path):
    """Three files of forty documents in all."""
    rng = random.Random(0)
    folder = tmp_path / "corpus"
    folder.mkdir()
    for name, number in (("a.txt", 20), ("b.txt", 1), ("c.txt", 19)):
        texts = [
            "\n".join(
                " ".join(rng.choices(WORDS, k=rng.randint(3, 30))) + " ."
                for _ in range(rng.randint(1, 30))
            )
            for _ in range(number)
        ]
        (folder / name).write_text("\n\n".join(texts) + "\n")
    return folder


def contents(folder):
    return {path.name: path.read_bytes() for path in pathlib.Path(folder).iterdir()}


def multiset(*folders):
    return collections.Counter(
        data
        for folder in folders
        for path in records.find_shards(folder)
        for data in records.read_records(path)
    )


def test_every_token_read_is_kept_and_counted(corpus, vocab_file, tmp_path):
    out = tmp_path / "out"
    summary = build(corpus, vocab_file, out, BuilderSettings(max_seq_length=32))
    text = " ".join(path.read_text() for path in corpus.iterdir())
    lines = sum(p.read_text().count(".\n") for p in corpus.iterdir())
    counts = records.read_manifest(out).counts
    assert counts["tokens_read"] == counts["tokens_kept"] == len(text.split())
    assert counts["documents"] == 40
    assert counts["lines"] == lines
    assert counts["examples"] == sum(multiset(out).values())
    assert summary.counts["unknown"] == 0
    kept = sum(
        sum(e["input_mask"]) - e["input_ids"].count(2) - e["input_ids"].count(3)
        for e in map(records.parse_example, multiset(out).elements())
    )
    assert kept == counts["tokens_kept"]
    records.check_shards(out, records.read_manifest(out), max_seq_length=32)


def test_one_line_of_a_thousand_tokens_is_kept(vocab_file, tmp_path):
    (tmp_path / "long.txt").write_text(" ".join(["river"] * 1000))
    summary = build(tmp_path / "long.txt", vocab_file, tmp_path / "out")
    assert summary.counts["tokens_kept"] == 1000


def test_any_number_of_processes_writes_the_same_bytes(
    corpus, vocab_file, tmp_path, monkeypatch
):
    monkeypatch.setattr(documents.in_batches, "__defaults__", (1000,))
    settings = BuilderSettings(max_seq_length=32, num_out_files=3, eval_fraction=0.3)
    for number in (1, 3):
        build(
            corpus,
            vocab_file,
            tmp_path / f"{number}/train",
            settings,
            num_processes=number,
        )
    for part in ("train", "eval_tfrecords"):
        assert contents(tmp_path / "1" / part) == contents(tmp_path / "3" / part)


def test_evaluation_takes_whole_documents_out_of_training(corpus, vocab_file, tmp_path):
    settings = BuilderSettings(max_seq_length=32)
    build(corpus, vocab_file, tmp_path / "all", settings)
    split = BuilderSettings(max_seq_length=32, eval_fraction=0.3)
    summary = build(corpus, vocab_file, tmp_path / "train", split)
    assert 4 <= summary.eval_manifest.counts["documents"] <= 20
    parts = multiset(tmp_path / "train", tmp_path / "eval_tfrecords")
    assert parts == multiset(tmp_path / "all")


def test_a_document_and_its_copy_fall_to_the_same_set():
    texts = [documents.Document([f"text {i % 50}"]) for i in range(100)]
    lots = [d.for_eval for d in documents.choose_for_eval(texts, 0.5, seed=1)]
    assert lots[:50] == lots[50:]
    assert 10 < sum(lots[:50]) < 40


def test_a_document_of_many_megabytes_comes_in_parts(tmp_path):
    (tmp_path / "long.txt").write_text("words of a line\n" * 200_000 + "\nend\n")
    found = list(documents.read_documents(tmp_path / "long.txt"))
    assert [d.is_start for d in found] == [True, False, False, False, True]
    assert sum(len(d.lines) for d in found) == 200_001


def test_without_blanks_separating_documents_a_file_is_one(
    corpus, vocab_file, tmp_path
):
    settings = BuilderSettings(blanks_separate_docs=False)
    summary = build(corpus, vocab_file, tmp_path / "out", settings)
    assert summary.counts["documents"] == 3


def test_the_number_of_shards_follows_the_size_of_the_corpus():
    def number(megabytes, **settings):
        return dataset_builder.choose_num_out_files(
            BuilderSettings(**settings), megabytes * 1e6
        )

    assert number(1) == 1
    assert number(14) == 4
    assert number(2_000) == 64
    assert 800 < number(45_000) < 1200
    assert number(14, compat="original") == 1000
    assert number(14, num_out_files=7) == 7


def test_the_manifest_has_the_size_and_checksum_of_each_shard(
    corpus, vocab_file, tmp_path
):
    build(corpus, vocab_file, tmp_path / "out", BuilderSettings(num_out_files=2))
    manifest = json.loads((tmp_path / "out/manifest.json").read_text())
    vocabulary = Vocabulary.load(vocab_file)
    assert manifest["vocabulary"] == {
        "size": vocabulary.size,
        "sha256": vocabulary.sha256,
    }
    for shard in manifest["shards"]:
        data = (tmp_path / "out" / shard["name"]).read_bytes()
        assert shard["bytes"] == len(data)
        assert shard["sha256"] == hashlib.sha256(data).hexdigest()


# ---- what goes wrong


def test_a_failed_build_leaves_nothing(corpus, vocab_file, tmp_path, monkeypatch):
    def full_disk(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(records.ShardWriter, "write_framed", full_disk)
    out = tmp_path / "out"
    with pytest.raises(OSError, match="No space left on device: '.*out'"):
        build(corpus, vocab_file, out)
    assert not out.exists()


def test_a_failed_build_keeps_the_records_that_it_was_to_replace(
    corpus, vocab_file, tmp_path, monkeypatch
):
    build(corpus, vocab_file, tmp_path / "out")
    before = contents(tmp_path / "out")

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(records.ShardWriter, "finish", interrupted)
    with pytest.raises(KeyboardInterrupt):
        build(corpus, vocab_file, tmp_path / "out", overwrite=True)
    assert contents(tmp_path / "out") == before


def test_records_are_replaced_only_when_asked(corpus, vocab_file, tmp_path):
    out = tmp_path / "out"
    build(corpus, vocab_file, out, BuilderSettings(num_out_files=3))
    (out / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match="already holds records"):
        build(corpus, vocab_file, out)
    build(corpus, vocab_file, out, BuilderSettings(num_out_files=1), overwrite=True)
    names = {"notes.txt", "manifest.json", "pretrain_data.tfrecord-0-of-1"}
    assert set(contents(out)) == names


@pytest.mark.parametrize(
    "wrong, message",
    [
        ({"max_seq_length": 4}, "max_seq_length is 4, wanted at least 5"),
        ({"eval_fraction": 1.0}, "eval_fraction is 1.0"),
        ({"eval_fraction": -0.1}, "eval_fraction is -0.1"),
        ({"num_out_files": 0}, "num_out_files is 0"),
        ({"compat": "bert"}, "compat is 'bert'"),
        ({"compat": "original", "eval_fraction": 0.1}, "makes no evaluation set"),
    ],
)
def test_a_wrong_setting_is_named_with_its_value(wrong, message):
    with pytest.raises(InputError, match=message):
        BuilderSettings(**wrong)


@pytest.mark.parametrize("text", ["", "\n \n\t\n"])
def test_a_blank_corpus_is_an_error(vocab_file, tmp_path, text):
    (tmp_path / "blank.txt").write_text(text)
    with pytest.raises(InputError, match="holds no text"):
        build(tmp_path / "blank.txt", vocab_file, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_missing_corpus_is_an_error(vocab_file, tmp_path):
    with pytest.raises(InputError, match="nowhere"):
        build(tmp_path / "nowhere", vocab_file, tmp_path / "out")


def test_records_in_the_corpus_are_not_read_as_text(corpus, vocab_file):
    build(corpus, vocab_file, corpus / "out")
    with pytest.raises(InputError, match="holds records"):
        build(corpus, vocab_file, corpus / "out", overwrite=True)


def test_text_that_does_not_fit_the_vocabulary_gives_a_warning(vocab_file, tmp_path):
    (tmp_path / "text.txt").write_text("other words altogether\n" * 2000)
    summary = build(tmp_path / "text.txt", vocab_file, tmp_path / "out")
    found = list(tool.warnings(summary))
    assert "100.0% of the tokens are [UNK]" in found[0]
    assert "1 documents in 2,000 lines" in found[1]


# ---- the original's writer


@pytest.mark.golden
def test_the_writer_equals_the_recorded_one(golden, english_vocab, tmp_path):
    path = golden / "pretrain_examples.json"
    if not path.exists():
        pytest.skip(f"{path.name} is only in the full set of recorded numbers")
    recorded = json.loads(path.read_text())["writer"]
    (tmp_path / "corpus").mkdir()
    for name, lines in recorded["files"].items():
        text = recorded["join"].join(lines)
        (tmp_path / "corpus" / name).write_text(text, encoding="utf-8")
    for number, run in enumerate(recorded["runs"]):
        (tmp_path / str(number)).mkdir()
        check_job(run, english_vocab, tmp_path / "corpus", tmp_path / str(number))


def check_job(run, vocab_file, corpus, out):
    names = ("max_seq_length", "blanks_separate_docs", "num_out_files", "seed")
    settings = BuilderSettings(
        compat="original",
        num_jobs=run["num_jobs"],
        **{name: run[name] for name in names},
    )
    normalising = TokenizerSettings(run["do_lower_case"], run["strip_accents"])
    worker = ExampleWorker(vocab_file, normalising, settings)
    number = run["num_out_files"]
    shards = [out / records.shard_name(i, number) for i in range(number)]
    job = run["job_id"]
    files = [str(path) for path in corpus.iterdir()]
    _, counts = worker.original_job(job, files, shards[job :: run["num_jobs"]])
    assert counts["examples"] == run["n_written"]
    written = {}
    for path in out.iterdir():
        made = [records.parse_example(data) for data in records.read_records(path)]
        written[path.name.removesuffix(".unfinished")] = [
            {
                "ids": example["input_ids"][: sum(example["input_mask"])],
                "n_segment_1": sum(example["segment_ids"]),
            }
            for example in made
        ]
        assert all(len(e["input_ids"]) == run["max_seq_length"] for e in made)
    assert written == run["tfrecords"]


def test_under_compat_original_every_process_writes_its_own_shards(
    corpus, vocab_file, tmp_path
):
    settings = BuilderSettings(
        max_seq_length=32, num_out_files=5, compat="original", seed=3
    )
    summary = build(corpus, vocab_file, tmp_path / "out", settings, num_processes=2)
    manifest = summary.manifest
    assert manifest.settings["num_jobs"] == 2
    assert [s["name"] for s in manifest.shards] == [
        records.shard_name(i, 5) for i in range(5)
    ]
    assert sum(s["records"] for s in manifest.shards) == manifest.counts["examples"]
    assert manifest.counts["documents"] == 40
    assert manifest.counts["tokens_kept"] < 0.95 * manifest.counts["tokens_read"]
    records.check_shards(tmp_path / "out", manifest, max_seq_length=32)


def test_under_compat_original_more_processes_than_shards_are_refused(
    corpus, vocab_file, tmp_path
):
    settings = BuilderSettings(num_out_files=1, compat="original")
    with pytest.raises(InputError, match="wanted 2 or more"):
        build(corpus, vocab_file, tmp_path / "out", settings, num_processes=2)


# ---- the command


def command(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "tfrecords_tools.build_pretraining_dataset", *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )


def test_the_command_takes_the_original_spellings(corpus, vocab_file, tmp_path):
    done = command(
        *("--corpus-dir", corpus, "--vocab-file", vocab_file),
        *("--output-dir", tmp_path / "out", "--max-seq-length", "16"),
        *("--no-lower-case", "--no-strip-accents", "--blanks-separate-docs", "False"),
    )
    assert done.returncode == 0, done.stderr
    assert "100.00%" in done.stdout
    manifest = records.read_manifest(tmp_path / "out")
    assert manifest.tokenizer == {"do_lower_case": False, "strip_accents": False}
    assert manifest.settings["blanks_separate_docs"] is False


def test_a_value_after_the_switch_counts():
    join = tool.join_boolean_values
    name = "blanks_separate_docs"
    assert join(["--blanks-separate-docs", "False", "--x"], name) == [
        "--blanks-separate-docs=False",
        "--x",
    ]
    assert join(["--blanks_separate_docs", "--x", "y"], name) == [
        "--blanks_separate_docs",
        "--x",
        "y",
    ]


def test_bad_input_ends_the_command_in_one_line(vocab_file, tmp_path):
    done = command(
        "--corpus_dir=nowhere", f"--vocab_file={vocab_file}", "--output_dir=o"
    )
    assert done.returncode == 1
    assert done.stderr.startswith("error: ") and done.stderr.count("\n") == 1
    done = command("--corpus_dir=nowhere")
    assert done.stderr == "error: --vocab_file is missing: see --help\n"


def test_evaluation_records_of_a_build_before_go_with_it(corpus, vocab_file, tmp_path):
    out, evaluation = tmp_path / "train", tmp_path / "eval_tfrecords"
    build(corpus, vocab_file, out, BuilderSettings(eval_fraction=0.3))
    (evaluation / "notes.txt").write_text("mine")
    summary = build(corpus, vocab_file, out, BuilderSettings(), overwrite=True)
    assert "were removed" in summary.old_evaluation
    assert [p.name for p in evaluation.iterdir()] == ["notes.txt"]


def test_evaluation_records_of_another_build_are_kept_and_named(
    corpus, vocab_file, tmp_path
):
    build(corpus, vocab_file, tmp_path / "one", BuilderSettings(eval_fraction=0.3))
    before = sorted((tmp_path / "eval_tfrecords").iterdir())
    summary = build(corpus, vocab_file, tmp_path / "two", BuilderSettings())
    assert "of another build" in summary.old_evaluation
    assert sorted((tmp_path / "eval_tfrecords").iterdir()) == before


def test_pieces_that_the_settings_can_not_give_are_counted():
    vocabulary = Vocabulary(
        ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "Haus", "##\u00fcr", "ab", "."]
    )
    assert unreachable_pieces(vocabulary, TokenizerSettings(False)) == 0
    assert unreachable_pieces(vocabulary, TokenizerSettings(True, False)) == 1
    assert unreachable_pieces(vocabulary, TokenizerSettings(True, True)) == 2
