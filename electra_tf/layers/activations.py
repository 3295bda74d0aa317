"""The activations that the original's `hidden_act` can name; GELU in its erf form."""

import tensorflow as tf


@tf.custom_gradient
def gelu(x):
    """Gaussian error linear unit (Hendrycks and Gimpel, 2016): x * Phi(x).

    Exact, with erf: the tanh approximation differs from the released weights' network
    by 5e-4. The gradient Phi(x) + x * phi(x) is written out: fewer, cheaper passes.
    """
    cdf = 0.5 * (1.0 + tf.math.erf(x * tf.constant(0.7071067811865476, x.dtype)))

    def gradient(dy):
        density = tf.exp(-0.5 * x * x) * tf.constant(0.3989422804014327, x.dtype)
        return dy * (cdf + x * density)

    return x * cdf, gradient


ACTIVATIONS = {"gelu": gelu, "relu": tf.nn.relu, "tanh": tf.tanh, "linear": None}
