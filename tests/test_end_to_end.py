"""The whole job as a user runs it, killed in the middle and continued."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import tensorflow as tf

REPO = pathlib.Path(__file__).parent.parent
HPARAMS = (
    '{"model_size": "tiny", "max_seq_length": 32, "num_train_steps": 20,'
    ' "train_batch_size": 8, "eval_batch_size": 8, "num_warmup_steps": 5,'
    ' "iterations_per_loop": 1, "save_checkpoints_steps": 5, "eval_every_steps": 10,'
    ' "do_eval": true, "shuffle_shards": 2, "model_hparam_overrides":'
    ' {"hidden_size": 32, "num_hidden_layers": 1, "intermediate_size": 64,'
    ' "hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1}}'
)


def command(module, *arguments):
    return [sys.executable, "-m", module, *map(str, arguments)]


def run(module, *arguments):
    return subprocess.run(
        command(module, *arguments),
        cwd=REPO,
        capture_output=True,
        text=True,
        env=os.environ | {"CUDA_VISIBLE_DEVICES": "-1"},
    )


def succeed(module, *arguments):
    done = run(module, *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    """A small corpus, its vocabulary and its records, made by the commands."""
    folder = tmp_path_factory.mktemp("data")
    corpus = folder / "corpus"
    corpus.mkdir()
    words = "the river runs past an old mill and two boats wait near its bank".split()
    generator = np.random.default_rng(0)
    lines = []
    for _ in range(60):
        for _ in range(6):
            lines.append(" ".join(generator.choice(words, 9)) + ".")
        lines.append("")
    (corpus / "text.txt").write_text("\n".join(lines))
    succeed(
        "tfrecords_tools.build_vocab",
        f"--corpus_dir={corpus}",
        f"--vocab_file={folder / 'vocab.txt'}",
        "--vocab_size=120",
        "--num_unused=5",
    )
    succeed(
        "tfrecords_tools.build_pretraining_dataset",
        f"--corpus_dir={corpus}",
        f"--vocab_file={folder / 'vocab.txt'}",
        f"--output_dir={folder / 'pretrain_tfrecords'}",
        "--max_seq_length=32",
        "--num_out_files=3",
        "--eval_fraction=0.2",
    )
    return folder


def training(data_dir, name, hparams=HPARAMS):
    return (
        "electra_tf.run_pretraining",
        f"--data_dir={data_dir}",
        f"--model_name={name}",
        f"--hparams={hparams}",
    )


@pytest.fixture(scope="module")
def uninterrupted(data_dir):
    return data_dir / "models" / "whole", succeed(*training(data_dir, "whole"))


def tensors(model_dir, step=20):
    reader = tf.train.load_checkpoint(
        str(model_dir / "checkpoints" / f"step_{step:08d}" / "variables")
    )
    return {n: reader.get_tensor(n) for n in reader.get_variable_to_shape_map()}


def kill_after(data_dir, name, text, number):
    """Starts a run, sends `number` once a line with `text` appears; returns status."""
    process = subprocess.Popen(
        command(*training(data_dir, name)),
        cwd=REPO,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    output = []
    for line in process.stdout:
        output.append(line)
        if line.startswith(text):
            time.sleep(0.02)
            process.send_signal(number)
            break
    output += process.stdout.readlines()
    return process.wait(), "".join(output)


@pytest.mark.parametrize(
    "number, text", [(signal.SIGKILL, "step 12/"), (signal.SIGTERM, "step 7/")]
)
def test_a_killed_and_continued_run_ends_with_the_same_bits(
    data_dir, uninterrupted, number, text
):
    name = f"killed_by_{number.name}"
    status, output = kill_after(data_dir, name, text, number)
    assert "step 20/20" not in output
    if number == signal.SIGTERM:
        assert status == 128 + signal.SIGTERM, output
        assert "checkpoint saved" in output
    else:
        assert status == -signal.SIGKILL
    continued = succeed(*training(data_dir, name))
    assert "continuing after step" in continued
    whole, ours = tensors(uninterrupted[0]), tensors(data_dir / "models" / name)
    assert whole.keys() == ours.keys()
    for key in whole:
        np.testing.assert_array_equal(ours[key], whole[key], err_msg=key)
    results = pathlib.Path("results/unsup_results.txt")
    assert (data_dir / "models" / name / results).read_text() == (
        uninterrupted[0] / results
    ).read_text()


def test_a_run_shows_and_keeps_what_it_promises(data_dir, uninterrupted):
    model_dir, output = uninterrupted
    assert "devices: 1 CPU; 1 replica" in output
    assert "loss at step 0" in output and "WARNING" not in output
    assert "always answering the majority" in output
    assert "input wait" in output and "ETA" in output
    kept = sorted(p.name for p in (model_dir / "checkpoints").iterdir())
    assert kept == ["best", *(f"step_{s:08d}" for s in (5, 10, 15, 20))]
    for name in ("config.json", "tokenizer.json", "vocab.txt"):
        assert (model_dir / name).exists()
    tags = {
        value.tag
        for part in ("train", "eval")
        for path in (model_dir / "logs" / part).iterdir()
        for event in tf.data.TFRecordDataset(str(path)).as_numpy_iterator()
        for value in summary_values(event)
    }
    assert {
        "losses/loss",
        "losses/mlm",
        "losses/rtd",
        "metrics/disc_auc",
        "training/learning_rate",
        "training/grad_norm",
        "speed/steps_per_second",
        "what the networks see",
    } <= tags


def summary_values(event):
    from tensorboard.compat.proto.event_pb2 import Event

    return Event.FromString(event).summary.value


def test_a_finished_run_says_that_there_is_nothing_to_train(data_dir, uninterrupted):
    output = succeed(*training(data_dir, "whole"))
    assert "nothing to train: step 20 is already done" in output


def test_evaluation_alone_gives_the_results_of_the_run(data_dir, uninterrupted):
    before = (uninterrupted[0] / "results" / "unsup_results.txt").read_text()
    hparams = HPARAMS[:-1] + ', "do_train": false}'
    succeed(*training(data_dir, "whole", hparams))
    after = (uninterrupted[0] / "results" / "unsup_results.txt").read_text()
    assert before == after


def test_another_config_for_the_same_model_is_refused(data_dir, uninterrupted):
    hparams = HPARAMS.replace('"num_warmup_steps": 5', '"num_warmup_steps": 6')
    done = run(*training(data_dir, "whole", hparams))
    assert done.returncode == 1
    (line,) = [s for s in done.stderr.splitlines() if s.startswith("error:")]
    assert "num_warmup_steps 5 -> 6" in line


def test_the_exported_model_answers_as_the_trained_one(
    data_dir, uninterrupted, tmp_path
):
    from electra_tf.data.pipeline import evaluation_dataset, open_shards
    from electra_tf.pretrained import load_objective

    succeed(
        "electra_tf.run_export",
        f"--model_dir={uninterrupted[0]}",
        f"--output_dir={tmp_path / 'serving'}",
    )
    moved = tmp_path / "moved"
    os.rename(tmp_path / "serving" / "1", moved)
    loaded = tf.saved_model.load(str(moved)).signatures["serving_default"]
    objective, config, _ = load_objective(str(uninterrupted[0]))
    shards = open_shards(config.eval_tfrecords, config.max_seq_length)
    dataset = evaluation_dataset(shards, max_seq_length=32, global_batch_size=3)
    batch = next(iter(dataset))
    batch.pop("row")
    answer = loaded(**batch)
    logits = objective.discriminator(*batch.values())
    np.testing.assert_allclose(answer["logits"], logits, atol=1e-5)
    probs = answer["replaced_probability"].numpy()
    assert ((0 <= probs) & (probs <= 1)).all()


def test_the_encoder_comes_back_as_a_keras_layer(data_dir, uninterrupted):
    import electra_tf
    from electra_tf.pretrained import load_objective

    encoder = electra_tf.Encoder.from_pretrained(str(uninterrupted[0]))
    objective, _, tokenizer = load_objective(str(uninterrupted[0]))
    ids = tf.constant([[tokenizer.vocabulary.cls_id, 20, 21, 22]])
    np.testing.assert_array_equal(encoder(ids), objective.encoder(ids))


def test_the_demo_and_the_plot_run_on_the_trained_model(
    data_dir, uninterrupted, tmp_path
):
    output = succeed("electra_tf.run_demo", f"--model_dir={uninterrupted[0]}")
    assert "swapped words called replaced" in output
    output = succeed(
        "electra_tf.run_demo", f"--model_dir={uninterrupted[0]}", "--text=the old mill"
    )
    assert [line.split()[0] for line in output.splitlines()[1:]] == [
        "the",
        "old",
        "mill",
    ]
    succeed(
        "electra_tf.run_plot",
        f"--model_dir={uninterrupted[0]}",
        f"--output={tmp_path / 'curves.png'}",
    )
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")


def test_debug_mode_takes_twenty_quick_steps_and_can_be_profiled(data_dir):
    output = succeed(
        *training(
            data_dir,
            "debug",
            '{"debug": true, "model_size": "tiny", "max_seq_length": 32}',
        ),
        "--profile_steps=3,5",
    )
    assert "step 20/20" in output
    profiles = list((data_dir / "models" / "debug" / "logs").rglob("*.xplane.pb"))
    assert len(profiles) == 1


def test_two_replicas_train_and_evaluate_by_a_flag(data_dir):
    output = succeed(
        *training(data_dir, "mirrored"), "--strategy=mirrored", "--logical_cpus=2"
    )
    assert "2 replicas" in output and "step 20/20" in output
    assert "evaluation: loss" in output


def hparams_with(**changes):
    return json.dumps(json.loads(HPARAMS) | changes)


def test_weights_that_are_no_numbers_are_never_kept(data_dir):
    name = "diverging"
    wild = hparams_with(learning_rate=1e6, eval_every_steps=1, iterations_per_loop=100)
    done = run(*training(data_dir, name, wild))
    assert done.returncode == 1 and "error: " in done.stderr
    for state in (data_dir / "models" / name).rglob("state.json"):
        assert "NaN" not in state.read_text()


def test_a_folder_of_another_program_is_left_alone(data_dir, tmp_path):
    for name, text in (("config.json", '{"model_type": "bert"}'), ("notes.txt", "x")):
        folder = tmp_path / name
        folder.mkdir()
        (folder / name).write_text(text)
        done = run(*training(data_dir, "m", hparams_with(model_dir=str(folder))))
        assert done.returncode == 1 and str(folder) in done.stderr
        assert [p.name for p in folder.iterdir()] == [name]
        assert (folder / name).read_text() == text


def test_a_checkpoint_of_another_seed_is_refused(data_dir, uninterrupted, tmp_path):
    model_dir = tmp_path / "copy"
    shutil.copytree(uninterrupted[0], model_dir)
    state = model_dir / "checkpoints" / "step_00000020" / "state.json"
    values = json.loads(state.read_text())
    values["config"]["seed"] = 99
    state.write_text(json.dumps(values))
    done = run(*training(data_dir, "whole", hparams_with(model_dir=str(model_dir))))
    assert done.returncode == 1 and "its seed differs" in done.stderr


def test_the_best_checkpoint_of_another_config_is_not_compared_with(
    data_dir, uninterrupted, tmp_path
):
    model_dir = tmp_path / "copy"
    shutil.copytree(uninterrupted[0], model_dir)
    for folder in (model_dir / "checkpoints").glob("step_*"):
        shutil.rmtree(folder)
    other = hparams_with(model_dir=str(model_dir), num_warmup_steps=7)
    done = run(*training(data_dir, "whole", other))
    assert done.returncode == 1 and "num_warmup_steps 5 -> 7" in done.stderr


def test_the_plot_overwrites_nothing_but_pictures(uninterrupted, tmp_path):
    mine = tmp_path / "vocab.txt"
    mine.write_text("mine")
    done = run(
        "electra_tf.run_plot", f"--model_dir={uninterrupted[0]}", f"--output={mine}"
    )
    assert done.returncode == 1 and mine.read_text() == "mine"


def test_evaluation_alone_needs_no_config_but_the_models_own(data_dir, uninterrupted):
    results = uninterrupted[0] / "results" / "unsup_results.txt"
    before = results.read_text()
    assert "step = 20" in before
    succeed(*training(data_dir, "whole", '{"do_train": false, "do_eval": true}'))
    # Batches of another size are other draws of masks: the examples are the same.
    assert "step = 20" in results.read_text()
    results.write_text(before)
