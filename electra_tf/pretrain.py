"""A pre-training run: checks everything at the door, then trains, evaluates, keeps.

model_dir/config.json tokenizer.json vocab.txt    what everything later reads
model_dir/checkpoints/ logs/ results/
"""

import json
import math
import os

import tensorflow as tf

from electra_tf import model_folder
from electra_tf.data import pipeline
from electra_tf.errors import InputError
from electra_tf.pretraining import inspection, metrics
from electra_tf.pretraining.objectives import build_objective
from electra_tf.training import loop, progress
from electra_tf.training.checkpoint import Checkpoints, read_state
from electra_tf.training.distribution import describe_devices
from electra_tf.training.optimizer import AdamWeightDecay, weight_decay_rows
from electra_tf.training.schedule import WarmupDecay


class Pretraining:
    """A run that has passed every check and is ready to train or to evaluate.

    Args:
        config: PretrainingConfig
        strategy: a `tf.distribute` strategy
        vocabulary, settings: the tokenizer of the records
        train_shards, eval_shards: `pipeline.Shards`; None where not wanted
        say: where lines for people go
    """

    def __init__(
        self,
        config,
        strategy,
        vocabulary,
        settings,
        train_shards,
        eval_shards,
        say=print,
    ):
        self.config = config
        self.strategy = strategy
        self.vocabulary = vocabulary
        self.settings = settings
        self.train_shards = train_shards
        self.eval_shards = eval_shards
        self.say = say
        self.best = None

    def build(self):
        """Builds the model and the optimizer and restores the latest checkpoint."""
        config = self.config
        tf.keras.utils.set_random_seed(config.seed)
        with self.strategy.scope():
            self.objective = build_objective(config, self.vocabulary)
            schedule = WarmupDecay(
                config.learning_rate,
                config.num_train_steps,
                config.num_warmup_steps,
                config.lr_decay_power,
            )
            self.optimizer = AdamWeightDecay(
                schedule, decay_rows=weight_decay_rows(config.weight_decay_rate)
            )
            self.optimizer.build(self.objective.trainable_variables)
        self.schedule = schedule
        variables = model_folder.variables_of(self.objective, self.optimizer)
        self.checkpoints = Checkpoints(
            os.path.join(config.model_dir, "checkpoints"),
            variables,
            config.keep_checkpoint_max,
        )
        state = self.checkpoints.restore_latest()
        self.start = state["step"] if state else 0
        best = os.path.join(config.model_dir, "checkpoints", "best")
        for name in model_folder.finished(best):
            self.best = read_state(os.path.join(best, name)).get("eval_loss")

    # ---- training

    def train(self, profile_steps=None):
        """Trains to num_train_steps; returns False if a signal ended it before."""
        config = self.config
        if self.start >= config.num_train_steps:
            self.say(f"nothing to train: step {self.start:,} is already done")
            return True
        if self.start:
            self.say(f"continuing after step {self.start:,}")
        logs = os.path.join(config.model_dir, "logs")
        self.train_log = tf.summary.create_file_writer(os.path.join(logs, "train"))
        self.eval_log = tf.summary.create_file_writer(os.path.join(logs, "eval"))
        every = []
        if self.eval_shards and config.eval_every_steps:
            every.append((config.eval_every_steps, self.evaluate_and_keep))
        every.append((config.save_checkpoints_steps, self.save))
        with loop.StopOnSignal() as stop:
            hooks = loop.Hooks(
                log=self.log,
                log_steps=config.iterations_per_loop,
                every=tuple(every),
                should_stop=stop,
                profile_steps=profile_steps,
                profile_dir=logs,
            )
            step = self.run_loop(hooks)
        if step < config.num_train_steps:
            self.save(step)
            self.say(
                f"stopped by {stop.received} after step {step:,}; checkpoint saved: "
                "run the same command again to continue"
            )
            return False
        return True

    def run_loop(self, hooks):
        try:
            return loop.train(
                self.objective,
                self.optimizer,
                self.strategy,
                iter(self.batches(training=True)),
                start=self.start,
                num_steps=self.config.num_train_steps,
                hooks=hooks,
                batch=self.config.train_batch_size,
            )
        except (tf.errors.DataLossError, tf.errors.InvalidArgumentError,
                tf.errors.NotFoundError) as error:  # fmt: skip
            damaged = pipeline.name_damaged_shard(self.train_shards)
            if damaged is None:
                raise
            raise InputError(
                f"the shard {damaged[0]} can't be read ({damaged[1]}): copy or build "
                "it again, then run the same command to continue"
            ) from error

    def batches(self, training):
        """Per-replica batches of the training or the evaluation records."""
        config, replicas = self.config, self.strategy.num_replicas_in_sync
        common = dict(max_seq_length=config.max_seq_length, num_replicas=replicas)

        def dataset(context):
            host = dict(
                pipeline=context.input_pipeline_id,
                num_pipelines=context.num_input_pipelines,
            )
            if training:
                return self.training_dataset(self.train_shards, **common, **host)
            if config.compat == "original":  # a sample of the records, repeated
                return self.training_dataset(
                    self.eval_shards,
                    global_batch_size=config.eval_batch_size,
                    **common,
                    **host,
                )
            return pipeline.evaluation_dataset(
                self.eval_shards,
                global_batch_size=config.eval_batch_size,
                **common,
                **host,
            )

        if replicas == 1:
            return dataset(tf.distribute.InputContext())
        return self.strategy.distribute_datasets_from_function(dataset)

    def training_dataset(self, shards, global_batch_size=None, **options):
        return pipeline.training_dataset(
            shards,
            global_batch_size=global_batch_size or self.config.train_batch_size,
            seed=self.config.seed,
            start_step=0 if global_batch_size else self.start,
            shuffle_shards=self.config.shuffle_shards,
            **options,
        )

    # ---- what happens beside training

    def log(self, step, sums, rates):
        losses = self.loss_values(sums)
        values = metrics.results(sums["metrics"])
        norm = float(sums["grad_norm"] / sums["steps"])
        if not math.isfinite(losses["loss"]):
            raise InputError(
                f"the loss is {losses['loss']} at step {step}: nothing was saved after "
                "the last checkpoint; try a lower learning_rate or a longer warm-up"
            )
        if step == 1:
            self.say(inspection.first_loss_verdict(self.config, losses["loss"]))
        shown = losses | {"grad_norm": norm}
        shown |= {
            k: values[k] for k in ("disc_auc", "masked_lm_accuracy") if k in values
        }
        self.say(progress.line(step, self.config.num_train_steps, shown, rates))
        scalars = {f"losses/{k}": v for k, v in losses.items()}
        scalars |= {f"metrics/{k}": v for k, v in values.items()}
        scalars["training/learning_rate"] = float(self.schedule(step - 1))
        scalars["training/grad_norm"] = norm
        scalars |= {f"speed/{k}": v for k, v in rates.items() if math.isfinite(v)}
        write_scalars(self.train_log, step, scalars)

    def loss_values(self, sums):
        """Weighted total and each loss, averaged over the predicted tokens."""
        values = {k: float(t / (w + 1e-6)) for k, (t, w) in sums["losses"].items()}
        weights = self.objective.loss_weights
        return {"loss": sum(weights[k] * v for k, v in values.items())} | values

    def save(self, step):
        state = model_folder.state_of(self.config, self.vocabulary)
        self.checkpoints.save(step, state)

    def evaluate_and_keep(self, step):
        """Evaluates, logs, and keeps the checkpoint if it is the best so far."""
        values = self.evaluate()
        self.say(f"step {step:,}  evaluation: {inspection.summary(values)}")
        write_scalars(
            self.eval_log, step, {f"metrics/{k}": v for k, v in values.items()}
        )
        batch = next(iter(self.sample_batches()))
        page = inspection.page(self.objective, batch, self.vocabulary)
        with self.eval_log.as_default(step=step):
            tf.summary.text("what the networks see", page)
        self.eval_log.flush()
        if self.best is None or values["loss"] < self.best:
            self.best = values["loss"]
            state = model_folder.state_of(self.config, self.vocabulary)
            self.checkpoints.save_best(step, state | {"eval_loss": self.best})

    def sample_batches(self):
        """Batches of the evaluation records, whole, for inspection."""
        return pipeline.evaluation_dataset(
            self.eval_shards,
            max_seq_length=self.config.max_seq_length,
            global_batch_size=min(4, self.config.eval_batch_size),
        )

    # ---- evaluation

    def evaluate(self):
        """Metrics over the evaluation records, each exactly once."""
        limit = None
        if self.config.debug or self.config.compat == "original":
            limit = self.config.num_eval_steps
        sums = loop.evaluate(
            self.objective, self.strategy, self.batches(training=False), limit
        )
        return self.loss_values(sums) | metrics.results(sums["metrics"])

    def write_results(self, values):
        """Writes results/unsup_results.{txt,json}, as the original named them."""
        folder = os.path.join(self.config.model_dir, "results")
        os.makedirs(folder, exist_ok=True)
        text = "\n".join(f"{name} = {value:.6g}" for name, value in values.items())
        model_folder.write_text(os.path.join(folder, "unsup_results.txt"), text + "\n")
        model_folder.write_text(
            os.path.join(folder, "unsup_results.json"), json.dumps(values, indent=1)
        )


def write_scalars(writer, step, scalars):
    with writer.as_default(step=step):
        for name, value in scalars.items():
            tf.summary.scalar(name, value)
    writer.flush()


def prepare(resolved, strategy, say=print):
    """Checks vocabulary, records and model folder; returns a `Pretraining`.

    Nothing is written until everything has been found to fit.

    Args:
        resolved: `config.Resolved`
    """
    config = resolved.config
    train_shards = eval_shards = None
    if config.do_train:
        train_shards = pipeline.open_shards(
            config.pretrain_tfrecords, config.max_seq_length
        )
    eval_shards = find_eval_shards(config, train_shards, say)
    if config.do_train and config.train_batch_size % strategy.num_replicas_in_sync:
        raise InputError(
            f"train_batch_size {config.train_batch_size} can't be shared evenly by "
            f"{strategy.num_replicas_in_sync} replicas"
        )
    shards = train_shards or eval_shards
    vocabulary, settings, config = model_folder.agree(
        config, resolved.sources, shards.manifest if shards else None, say
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
