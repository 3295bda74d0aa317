"""The whole job on a small model, each step a command that you could type yourself.

    python -m electra_tf.run_quickstart --data_dir=data/quickstart

text -> vocabulary -> records -> pre-training -> evaluation -> SavedModel -> curves ->
a sentence with a swapped word. The text is the English prose in the docstrings of the
installed packages: nothing is downloaded. Run again, it continues where it was.
"""

import os
import shlex
import signal
import subprocess
import sys
import time

from absl import flags

from electra_tf.command_line import alias_with_hyphens, run
from electra_tf.errors import InputError

FLAGS = flags.FLAGS
MODEL = "tiny"
CONFIG = os.path.join("configs", "tiny.toml")


def define_flags():
    flags.DEFINE_string("data_dir", "data/quickstart", "Folder for everything made.")
    flags.DEFINE_string("config", CONFIG, "TOML file of hyper-parameters.")
    flags.DEFINE_string("hparams", None, "JSON of hyper-parameters, over the config.")
    flags.DEFINE_integer("vocab_size", 8000, "Pieces of the vocabulary.")
    alias_with_hyphens("data_dir", "vocab_size")


def steps(data_dir, config, hparams, vocab_size, max_seq_length):
    """(what, path that shows it is done, module, arguments) of each step."""
    corpus = os.path.join(data_dir, "corpus")
    records = os.path.join(data_dir, "pretrain_tfrecords")
    model = os.path.join(data_dir, "models", MODEL)
    serving = os.path.join(data_dir, "serving", MODEL)
    processes = str(os.cpu_count() or 1)
    vocab = os.path.join(data_dir, "vocab.txt")
    train = [f"--data_dir={data_dir}", f"--model_name={MODEL}", f"--config={config}"]
    if hparams:
        train.append(f"--hparams={hparams}")
    return [
        (
            "Text: the prose in the docstrings of the installed packages",
            corpus,
            "tfrecords_tools.build_docstring_corpus",
            [f"--output_dir={corpus}"],
        ),
        (
            "Vocabulary",
            vocab,
            "tfrecords_tools.build_vocab",
            [
                f"--corpus_dir={corpus}",
                f"--vocab_file={vocab}",
                f"--vocab_size={vocab_size}",
                f"--num_processes={processes}",
            ],
        ),
        (
            "Records, with 3% of the documents held out",
            os.path.join(records, "manifest.json"),
            "tfrecords_tools.build_pretraining_dataset",
            [
                f"--corpus_dir={corpus}",
                f"--vocab_file={vocab}",
                f"--output_dir={records}",
                f"--max_seq_length={max_seq_length}",
                "--eval_fraction=0.03",
                f"--num_processes={processes}",
            ],
        ),
        ("Pre-training and evaluation", None, "electra_tf.run_pretraining", train),
        (
            "SavedModel of the discriminator",
            os.path.join(serving, "1"),
            "electra_tf.run_export",
            [f"--model_dir={model}", f"--output_dir={serving}"],
        ),
        (
            "Curves",
            None,
            "electra_tf.run_plot",
            [
                f"--model_dir={model}",
                f"--output={os.path.join(data_dir, 'curves.png')}",
            ],
        ),
        (
            "Which word was swapped?",
            None,
            "electra_tf.run_demo",
            [f"--model_dir={model}"],
        ),
    ]


def run_to_the_end(command):
    """Runs a command; Ctrl-C and SIGTERM are its to answer, so that it can save."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        process = subprocess.Popen(
            command, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)
        )
        signal.signal(signal.SIGTERM, lambda *_: process.terminate())
        return process.wait()
    finally:
        signal.signal(signal.SIGINT, before)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def main():
    from electra_tf.config import load_config

    config = load_config(
        data_dir=FLAGS.data_dir,
        model_name=MODEL,
        config_file=FLAGS.config,
        hparams=FLAGS.hparams,
    ).config
    start = time.monotonic()
    plan = steps(
        FLAGS.data_dir,
        FLAGS.config,
        FLAGS.hparams,
        FLAGS.vocab_size,
        config.max_seq_length,
    )
    for number, (what, result, module, arguments) in enumerate(plan, 1):
        command = ["python", "-m", module, *arguments]
        print(
            f"\n=== {number}/{len(plan)}  {what}\n$ {shlex.join(command)}", flush=True
        )
        if result and os.path.exists(result):
            print(f"{result} is there already", flush=True)
            continue
        status = run_to_the_end([sys.executable, *command[1:]])
        if status:
            raise InputError(
                f"step {number}, {what!r}, ended with status {status}; its message is "
                "above; run the same command to continue"
            )
    model = os.path.join(FLAGS.data_dir, "models", MODEL)
    print(
        f"\n=== done in {(time.monotonic() - start) / 60:.1f} minutes\n"
        f"evaluation   {model}/results/unsup_results.txt\n"
        f"curves       {FLAGS.data_dir}/curves.png\n"
        f"SavedModel   {FLAGS.data_dir}/serving/{MODEL}/1\n"
        f"TensorBoard  {os.path.dirname(sys.executable)}/tensorboard "
        f"--logdir={model}/logs\n"
        f"your text    {sys.executable} -m electra_tf.run_demo --model_dir={model} "
        '--text="..."'
    )
    return 0


def entry_point():
    define_flags()
    run(main)


if __name__ == "__main__":
    entry_point()
