"""The loop: batches in, updates out, sums of losses and metrics reported now and then.

It runs `train_step` under `strategy.run`, because Keras's own `fit` fails on several
machines, clips per replica and can't resume in the middle of an epoch. It knows no
objective by name: whatever maps a batch to `{name: (total, weight)}` can be trained.
"""

import dataclasses
import signal
import typing

import tensorflow as tf

from electra_tf.training.progress import Progress
from electra_tf.training.step import eval_step, train_step


@dataclasses.dataclass
class Hooks:
    """What happens beside training; each is called with the step just done.

    Attributes:
        log: called with (step, sums, rates) after the first step, after every
            `log_steps` and after the last
        every: (period, function of the step) pairs, in the order of running
        should_stop: asked after every step; a true answer ends the loop early
        log_steps: steps between two calls of `log`
        profile_steps: (first, last) step to profile, or None
        profile_dir: where the profile goes
    """

    log: typing.Callable
    log_steps: int
    every: tuple = ()
    should_stop: typing.Callable = lambda: False
    profile_steps: tuple | None = None
    profile_dir: str | None = None


def train(objective, optimizer, strategy, batches, *, start, num_steps, hooks, batch):
    """Trains from step `start` to `num_steps`; returns the last step done.

    Args:
        batches: endless iterator of what `strategy.run` takes: per-replica batches
        batch: examples in a global batch, for the rates
    """

    def replica_step(shard):
        return train_step(objective, optimizer, shard)

    @tf.function(reduce_retracing=True)
    def one_step(shard):
        return reduced(strategy, strategy.run(replica_step, args=(shard,)))

    add_up = tf.function(add)
    step, sums = start, None
    progress = Progress(start, num_steps, batch)
    profiler = Profiler(hooks.profile_steps, hooks.profile_dir)
    while step < num_steps and not hooks.should_stop():
        profiler.before(step + 1)
        with progress.waiting():
            shard = next(batches)
        report = one_step(shard)
        sums = report if sums is None else add_up(sums, report)
        step += 1
        profiler.after(step, sums)
        if step % hooks.log_steps == 0 or step in (start + 1, num_steps):
            values = tf.nest.map_structure(lambda t: t.numpy(), sums)  # waits
            hooks.log(step, values, progress.rates(step))
            sums = None
        for period, function in hooks.every:
            if step % period == 0 or step == num_steps:
                function(step)
                progress.restart(step)
    profiler.end()
    return step


class Profiler:
    """Profiles the steps from the first to the last asked for, if they are run."""

    def __init__(self, steps, folder):
        self.steps = steps
        self.folder = folder
        self.running = False

    def before(self, step):
        if self.steps and step == self.steps[0]:
            tf.profiler.experimental.start(self.folder)
            self.running = True

    def after(self, step, sums):
        if self.running and step == self.steps[1]:
            float(sums["steps"])  # wait for the device
            self.end()

    def end(self):
        if self.running:
            tf.profiler.experimental.stop()
            self.running = False


def evaluate(objective, strategy, batches, limit=None):
    """Sums losses and metrics over an iterable of per-replica batches."""

    @tf.function(reduce_retracing=True)
    def one(shard, step):
        report = strategy.run(
            lambda shard: eval_step(objective, shard, step), args=(shard,)
        )
        return reduced(strategy, report)

    sums = None
    for i, shard in enumerate(batches):
        if limit is not None and i >= limit:
            break
        report = one(shard, tf.constant(i, tf.int64))
        sums = report if sums is None else add(sums, report)
    return None if sums is None else tf.nest.map_structure(lambda t: t.numpy(), sums)


def reduced(strategy, report):
    """A report summed over the replicas, with a count of steps."""
    norm = report.pop("grad_norm", None)
    summed = tf.nest.map_structure(
        lambda t: strategy.reduce(tf.distribute.ReduceOp.SUM, t, axis=None), report
    )
    summed["steps"] = tf.constant(1.0)
    if norm is not None:  # the same on every replica
        summed["grad_norm"] = strategy.reduce(
            tf.distribute.ReduceOp.MEAN, norm, axis=None
        )
    return summed


def add(sums, report):
    return tf.nest.map_structure(tf.add, sums, report)


class StopOnSignal:
    """Within this context SIGTERM and SIGINT ask for a stop after the current step.

    A second SIGINT interrupts at once.
    """

    def __init__(self):
        self.received = None

    def __call__(self):
        return self.received is not None

    def __enter__(self):
        self._before = {
            s: signal.signal(s, self._note) for s in (signal.SIGTERM, signal.SIGINT)
        }
        return self

    def _note(self, number, _):
        if self.received and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.received = signal.Signals(number)

    def __exit__(self, *_):
        for number, handler in self._before.items():
            signal.signal(number, handler)
