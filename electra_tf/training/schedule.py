"""The learning rate: polynomial decay to 0, times linear warm-up (original, 19).

    rate(t) = base * (1 - min(t, T) / T) ** power * min(1, t / warmup)

Warm-up multiplies the already decaying rate. The update with index i (from 0) uses
rate(i + 1), as the original was seen to do.
"""

import keras
import tensorflow as tf


def rate(step, *, base, num_train_steps, num_warmup_steps, power=1.0):
    """Learning rate as a float32 tensor; `step` counts from 1 at the first update."""
    step = tf.cast(step, tf.float32)
    total = tf.cast(num_train_steps, tf.float32)
    value = base * (1.0 - tf.minimum(step, total) / total) ** power
    if num_warmup_steps > 0:
        value *= tf.minimum(1.0, step / tf.cast(num_warmup_steps, tf.float32))
    return value


class WarmupDecay(keras.optimizers.schedules.LearningRateSchedule):
    """`rate` as a Keras schedule: called with the number of updates already made."""

    def __init__(self, base, num_train_steps, num_warmup_steps, power=1.0):
        self.base = base
        self.num_train_steps = num_train_steps
        self.num_warmup_steps = num_warmup_steps
        self.power = power

    def __call__(self, step):
        return rate(
            tf.cast(step, tf.float32) + 1.0,
            base=self.base,
            num_train_steps=self.num_train_steps,
            num_warmup_steps=self.num_warmup_steps,
            power=self.power,
        )

    def get_config(self):
        return {
            "base": self.base,
            "num_train_steps": self.num_train_steps,
            "num_warmup_steps": self.num_warmup_steps,
            "power": self.power,
        }
