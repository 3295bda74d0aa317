"""Pre-trains ELECTRA.

    python -m electra_tf.run_pretraining --data_dir=DATA --model_name=NAME \\
        [--config=configs/electra_small.toml] [--hparams='{"learning_rate": 5e-4}']

DATA holds vocab.txt, pretrain_tfrecords/ and, if there is to be evaluation,
eval_tfrecords/. The model goes to DATA/models/NAME. The same command again continues.
"""

import re

from absl import flags

from electra_tf.command_line import alias_with_hyphens, import_tensorflow, run
from electra_tf.errors import InputError

FLAGS = flags.FLAGS


def define_flags():
    flags.DEFINE_string("data_dir", None, "Folder of vocab.txt and the records.")
    flags.DEFINE_string("model_name", None, "Name of the model; names its folder.")
    flags.DEFINE_string("config", None, "TOML file of hyper-parameters.")
    flags.DEFINE_string(
        "hparams", None, "JSON object of hyper-parameters, or the path of a JSON file."
    )
    flags.DEFINE_string("strategy", "one_device", "one_device or mirrored.")
    flags.DEFINE_integer(
        "logical_cpus", 0, "Split the CPU into so many devices, to try mirrored."
    )
    flags.DEFINE_integer("seed", None, "Seed of weights, masks, order and dropout.")
    flags.DEFINE_string(
        "profile_steps", None, "FIRST,LAST: profile these steps, for TensorBoard."
    )
    flags.DEFINE_bool(
        "deterministic", True, "Same seed, same data, same machine: same bits."
    )
    flags.DEFINE_bool("require_gpu", False, "End the run if no GPU is found.")
    alias_with_hyphens(
        "data_dir", "model_name", "logical_cpus", "profile_steps", "require_gpu"
    )


def main():
    resolved = load()
    if FLAGS.logical_cpus < 0:
        raise InputError(f"--logical_cpus must be 0 or more, got {FLAGS.logical_cpus}")
    profile_steps = parse_profile_steps(FLAGS.profile_steps)
    print("hyper-parameters:\n" + resolved.table(), flush=True)

    tf = import_tensorflow()
    from electra_tf.training.checkpoint import first_line

    if FLAGS.require_gpu and not tf.config.list_physical_devices("GPU"):
        raise InputError("--require_gpu: TensorFlow finds no GPU on this machine")
    if FLAGS.deterministic:
        tf.config.experimental.enable_op_determinism()
    try:
        return run_it(resolved, profile_steps)
    except tf.errors.ResourceExhaustedError as error:
        raise InputError(
            f"no space left, in memory or on the disk ({first_line(error)}): choose a "
            "smaller train_batch_size or model, or free some space; the last "
            "checkpoint is whole"
        ) from None
    except (tf.errors.FailedPreconditionError, tf.errors.AlreadyExistsError) as error:
        raise InputError(f"a file can't be written: {first_line(error)}") from None


def run_it(resolved, profile_steps):
    """Trains and evaluates; the status is 128 + the signal's number if one ended it."""
    from electra_tf.preparation import prepare
    from electra_tf.pretraining.inspection import summary
    from electra_tf.training.distribution import build_strategy

    strategy = build_strategy(FLAGS.strategy, FLAGS.logical_cpus)
    training = prepare(resolved, strategy, say)
    training.build()
    config = training.config
    if config.do_train:
        stopped_by = training.train(profile_steps)
        if stopped_by:
            return 128 + stopped_by
    if config.do_eval:
        if not config.do_train and training.start == 0:
            raise InputError(f"no checkpoint in {config.model_dir}: train it first")
        values = training.evaluate(training.step)
        training.write_results(values)
        say(f"evaluation: {summary(values)}")
    return 0


def say(text):
    print(text, flush=True)


def load():
    from electra_tf.config import load_config

    for name in ("data_dir", "model_name"):
        if not FLAGS[name].value:
            raise InputError(f"--{name} is missing")
    given = {} if FLAGS.seed is None else {"seed": FLAGS.seed}
    return load_config(
        data_dir=FLAGS.data_dir,
        model_name=FLAGS.model_name,
        config_file=FLAGS.config,
        hparams=FLAGS.hparams,
        flags=given,
    )


def parse_profile_steps(text):
    if text is None:
        return None
    parts = text.split(",")
    if len(parts) != 2 or not all(re.fullmatch("[0-9]{1,9}", p.strip()) for p in parts):
        raise InputError(f"--profile_steps must be FIRST,LAST, got {text!r}")
    first, last = map(int, parts)
    if not 1 <= first <= last:
        raise InputError(f"--profile_steps: 1 <= FIRST <= LAST, got {text!r}")
    return first, last


def entry_point():
    define_flags()
    run(main)


if __name__ == "__main__":
    entry_point()
