"""LayerNorm (Ba et al., 2016) as in the original: epsilon 1e-12, float32 inside.

y = gamma * (x - mean) / sqrt(variance + epsilon) + beta, over the last axis. The
gradient is written out by hand: it keeps one tensor less than automatic differentiation
and takes fewer passes over memory.
"""

import keras
import tensorflow as tf

EPSILON = 1e-12


class LayerNorm(keras.layers.Layer):
    """Normalises the last axis.

    Shapes:
        x: float [..., size]; returns the same, in x's dtype
    """

    def build(self, shape):
        self.gamma = self.add_weight(
            shape=(shape[-1],), initializer="ones", name="gamma"
        )
        self.beta = self.add_weight(
            shape=(shape[-1],), initializer="zeros", name="beta"
        )

    def call(self, x):
        return layer_norm(
            x, tf.convert_to_tensor(self.gamma), tf.convert_to_tensor(self.beta)
        )

    def compute_output_shape(self, shape):
        return shape


@tf.custom_gradient
def layer_norm(x, gamma, beta):
    x32 = tf.cast(x, tf.float32)
    centered = x32 - tf.reduce_mean(x32, -1, keepdims=True)
    variance = tf.reduce_mean(tf.square(centered), -1, keepdims=True)
    scale = tf.math.rsqrt(variance + EPSILON)
    normal = centered * scale
    gamma32 = tf.cast(gamma, tf.float32)
    y = normal * gamma32 + tf.cast(beta, tf.float32)

    def gradient(dy):
        dy32 = tf.cast(dy, tf.float32)
        axes = list(range(dy32.shape.rank - 1))
        d_gamma = tf.reduce_sum(dy32 * normal, axes)
        d_beta = tf.reduce_sum(dy32, axes)
        d_normal = dy32 * gamma32
        mean = tf.reduce_mean(d_normal, -1, keepdims=True)
        slope = tf.reduce_mean(d_normal * normal, -1, keepdims=True)
        d_x = (d_normal - mean - normal * slope) * scale
        return (
            tf.cast(d_x, x.dtype),
            tf.cast(d_gamma, gamma.dtype),
            tf.cast(d_beta, beta.dtype),
        )

    return tf.cast(y, x.dtype), gradient
