"""The checks of a pre-training run; nothing is written before all have passed."""

from electra_tf import model_folder
from electra_tf.data import pipeline
from electra_tf.errors import InputError
from electra_tf.pretrain import Pretraining
from electra_tf.training.distribution import describe_devices


def prepare(resolved, strategy, say=print):
    """Checks vocabulary, records and model folder; returns a `Pretraining`.

    Nothing is written until everything has been found to fit.

    Args:
        resolved: `config.Resolved`
    """
    config = resolved.config
    if not config.do_train:
        config = model_folder.for_evaluation(config, resolved.sources)
    train_shards = eval_shards = None
    if config.do_train:
        train_shards = pipeline.open_shards(
            config.pretrain_tfrecords, config.max_seq_length
        )
    eval_shards = find_eval_shards(config, train_shards, say)
    replicas = strategy.num_replicas_in_sync
    used = ["eval_batch_size"] + ["train_batch_size"] * config.do_train
    for name in used:
        if getattr(config, name) % replicas:
            raise InputError(
                f"{name} {getattr(config, name)} can't be shared evenly by "
                f"{replicas} replicas: choose a multiple of {replicas}"
            )
    manifests = [s.manifest for s in (train_shards, eval_shards) if s and s.manifest]
    vocabulary, settings, config = model_folder.agree(
        config, resolved.sources, manifests, say
    )
    model_folder.check(config, vocabulary, settings, say)
    if config.do_train:
        model_folder.create(config, vocabulary, settings)
    say(describe_devices(strategy))
    if train_shards:
        steps = train_shards.num_records / config.train_batch_size
        say(
            f"records: {train_shards.num_records:,} in {len(train_shards.paths)} "
            f"shards, {steps:,.0f} steps an epoch, "
            f"{config.num_train_steps / steps:.2f} epochs"
        )
    return Pretraining(
        config, strategy, vocabulary, settings, train_shards, eval_shards, say
    )


def find_eval_shards(config, train_shards, say):
    """The evaluation records; training goes on without, evaluation does not."""
    if config.compat == "original":  # it evaluated on the training records
        return train_shards or pipeline.open_shards(
            config.pretrain_tfrecords, config.max_seq_length
        )
    try:
        return pipeline.open_shards(config.eval_tfrecords, config.max_seq_length)
    except InputError as error:
        if config.do_eval or "no records match" not in str(error):
            raise
        say(
            f"no evaluation records ({config.eval_tfrecords}): build the records with "
            "--eval_fraction=0.01 to have some"
        )
        return None
