"""Dropout whose mask is a function of (seed, step, place), so that runs resume exactly.

A training step opens `dropout_seed(seed)`, and every `Dropout` called inside mixes its
own place (its path in the model) into that seed. Outside, for instance in a model of a
user's own under `fit`, the layer draws from a Keras SeedGenerator like any other.
"""

import contextlib
import zlib

import keras
import tensorflow as tf

_seeds = []


@contextlib.contextmanager
def dropout_seed(seed):
    """Makes the dropout masks of the enclosed calls a function of `seed`, int32 [2]."""
    _seeds.append(seed)
    try:
        yield
    finally:
        _seeds.pop()


def fold_in(seed, data):
    """Derives a new seed, int32 [2], from a seed and an integer."""
    return tf.random.experimental.stateless_fold_in(seed, data)


class Dropout(keras.layers.Layer):
    """Sets a share `rate` of the entries to 0 and scales up the rest, in training."""

    def __init__(self, rate, **kwargs):
        super().__init__(**kwargs)
        self.rate = rate
        self.fallback = keras.random.SeedGenerator()
        self.supports_masking = True

    def build(self, shape=None):
        self.built = True

    def call(self, x, training=False):
        if not training or self.rate == 0:
            return x
        if _seeds:
            place = zlib.crc32(self.path.encode()) & 0x7FFFFFFF
            seed = fold_in(_seeds[-1], place)
        else:
            seed = tf.cast(self.fallback.next(), tf.int32)
        return tf.nn.experimental.stateless_dropout(
            x, self.rate, seed=seed, rng_alg="philox"
        )

    def compute_output_shape(self, shape):
        return shape
