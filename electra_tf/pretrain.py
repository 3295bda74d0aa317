"""A pre-training run: trains, evaluates, keeps; see `preparation` for its checks.

model_dir/config.json tokenizer.json vocab.txt    what everything later reads
model_dir/checkpoints/ logs/ results/
"""

import contextlib
import json
import math
import os

import numpy as np
import tensorflow as tf

from electra_tf import model_folder
from electra_tf.data import pipeline
from electra_tf.errors import InputError
from electra_tf.files import write_text
from electra_tf.pretraining import inspection, metrics
from electra_tf.pretraining.objectives import build_objective
from electra_tf.training import loop, progress
from electra_tf.training.checkpoint import Checkpoints, first_line
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
        self.best = math.inf  # loss of the best evaluation so far
        self.evaluated = (None, None)  # step and values of the last evaluation

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
        if state:
            folder = self.checkpoints.folder
            model_folder.check_state(config, self.vocabulary, state, folder)
        self.start = self.step = state["step"] if state else 0
        best = self.checkpoints.best_state().get("eval_loss")
        self.best = best if is_number(best) else math.inf

    # ---- training

    def train(self, profile_steps=None):
        """Trains to num_train_steps; returns the number of the signal that ended it.

        0 where it was trained to the end.
        """
        config = self.config
        if self.start >= config.num_train_steps:
            self.say(f"nothing to train: step {self.start:,} is already done")
            return 0
        if self.start:
            self.say(f"continuing after step {self.start:,}")
        logs = os.path.join(config.model_dir, "logs")
        self.train_log = tf.summary.create_file_writer(os.path.join(logs, "train"))
        self.eval_log = tf.summary.create_file_writer(os.path.join(logs, "eval"))
        every = []
        if self.eval_shards:  # loop runs each of these after the last step too
            period = config.eval_every_steps or config.num_train_steps
            every.append((period, self.evaluate_and_keep))
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
            step = self.step = self.run_loop(hooks)
        if step < config.num_train_steps:
            self.save(step)
            self.say(
                f"stopped by {stop.received.name} after step {step:,}; checkpoint "
                "saved: run the same command again to continue"
            )
            return int(stop.received)
        return 0

    def run_loop(self, hooks):
        with self.naming_damage(self.train_shards, self.eval_shards):
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

    @contextlib.contextmanager
    def naming_damage(self, *all_shards):
        """Turns an error of reading into a line that names the damaged shard."""
        try:
            yield
        except (
            tf.errors.DataLossError,
            tf.errors.InvalidArgumentError,
            tf.errors.NotFoundError,
        ) as error:
            damaged = [pipeline.name_damaged_shard(s) for s in all_shards if s]
            for path, reason in filter(None, damaged):
                raise InputError(
                    f"the shard {path} can't be read ({reason}): copy or build it "
                    "again, then run the same command to continue"
                ) from error
            raise InputError(
                f"a batch of the records can't be used ({first_line(error)}): do their "
                "ids fit vocab_size and their segments type_vocab_size?"
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
        self.check_finite(step)
        state = model_folder.state_of(self.config, self.vocabulary)
        self.checkpoints.save(step, state)

    def check_finite(self, step):
        """Ends the run before weights that are no numbers replace good ones."""
        for weight in self.objective.weights:
            if not np.all(np.isfinite(weight.numpy())):
                raise InputError(
                    f"{weight.path} is not finite after step {step}: nothing was "
                    "saved after the last checkpoint; try a lower learning_rate or a "
                    "longer warm-up"
                )

    def evaluate_and_keep(self, step):
        """Evaluates, logs, and keeps the checkpoint if it is the best so far."""
        values = self.evaluate(step)
        self.say(f"step {step:,}  evaluation: {inspection.summary(values)}")
        write_scalars(
            self.eval_log, step, {f"metrics/{k}": v for k, v in values.items()}
        )
        batch = next(iter(self.sample_batches()))
        page = inspection.page(self.objective, batch, self.vocabulary)
        with self.eval_log.as_default(step=step):
            tf.summary.text("what the networks see", page)
        self.eval_log.flush()
        self.check_finite(step)
        if values["loss"] < self.best:
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

    def evaluate(self, step):
        """Metrics over the evaluation records, each exactly once.

        Asked again for the same step, it answers from memory.
        """
        if self.evaluated[0] == step:
            return self.evaluated[1]
        limit = None
        if self.config.debug or self.config.compat == "original":
            limit = self.config.num_eval_steps
        with self.naming_damage(self.eval_shards):
            sums = loop.evaluate(
                self.objective, self.strategy, self.batches(training=False), limit
            )
        values = self.loss_values(sums) | metrics.results(sums["metrics"])
        values["step"] = step
        self.evaluated = (step, values)
        return values

    def write_results(self, values):
        """Writes results/unsup_results.{txt,json}, as the original named them."""
        folder = os.path.join(self.config.model_dir, "results")
        text = "\n".join(f"{name} = {value:.6g}" for name, value in values.items())
        write_text(os.path.join(folder, "unsup_results.txt"), text + "\n")
        write_text(
            os.path.join(folder, "unsup_results.json"), json.dumps(values, indent=1)
        )


def is_number(value):
    return isinstance(value, float) and math.isfinite(value)


def write_scalars(writer, step, scalars):
    with writer.as_default(step=step):
        for name, value in scalars.items():
            tf.summary.scalar(name, value)
    writer.flush()
