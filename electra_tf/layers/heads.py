"""The prediction heads of pre-training (paper, section 3.1)."""

import keras
import tensorflow as tf

from electra_tf.layers.dense import Dense, truncated_normal
from electra_tf.layers.normalization import LayerNorm


class MaskedLMHead(keras.layers.Layer):
    """Scores every piece of the vocabulary against the embedding table it shares.

    logits = LayerNorm(gelu(x W + b)) E^T + output_bias, in float32.

    Shapes:
        x: float [..., hidden_size]
        returns: float32 [..., vocab_size]
    """

    def __init__(self, *, embeddings, activation, initializer_range=0.02, **kwargs):
        super().__init__(**kwargs)
        self.embeddings = embeddings
        self.dense = Dense(
            embeddings.embedding_size,
            activation=activation,
            kernel_initializer=truncated_normal(initializer_range),
            name="dense",
            dtype=self.dtype_policy,
        )
        self.layer_norm = LayerNorm(name="layer_norm", dtype=self.dtype_policy)

    def build(self, shape):
        size = self.embeddings.embedding_size
        self.dense.build(shape)
        self.layer_norm.build((None, size))
        self.output_bias = self.add_weight(
            shape=(self.embeddings.vocab_size,), initializer="zeros", name="output_bias"
        )

    def call(self, x):
        x = self.layer_norm(self.dense(x))
        lead = tf.shape(x)[:-1]
        table = tf.cast(tf.convert_to_tensor(self.embeddings.word_embeddings), x.dtype)
        flat = tf.reshape(x, [-1, x.shape[-1]])
        logits = tf.cast(tf.matmul(flat, table, transpose_b=True), tf.float32)
        logits += tf.cast(tf.convert_to_tensor(self.output_bias), tf.float32)
        return tf.reshape(logits, tf.concat([lead, [table.shape[0]]], 0))

    def compute_output_shape(self, shape):
        return (*shape[:-1], self.embeddings.vocab_size)


class ReplacedTokenHead(keras.layers.Layer):
    """Scores every token: above 0 means "replaced". No LayerNorm, no dropout.

    Shapes:
        x: float [batch, seq_len, hidden_size]
        returns: float32 [batch, seq_len]
    """

    def __init__(self, *, hidden_size, activation, initializer_range=0.02, **kwargs):
        super().__init__(**kwargs)
        self.dense = Dense(
            hidden_size,
            activation=activation,
            kernel_initializer=truncated_normal(initializer_range),
            name="dense",
            dtype=self.dtype_policy,
        )
        # The original left this one layer at TensorFlow's default initializer.
        self.output_dense = Dense(
            1,
            kernel_initializer="glorot_uniform",
            name="output_dense",
            dtype=self.dtype_policy,
        )

    def build(self, shape):
        self.dense.build(shape)
        self.output_dense.build((None, None, self.dense.units))

    def call(self, x):
        return tf.squeeze(tf.cast(self.output_dense(self.dense(x)), tf.float32), -1)

    def compute_output_shape(self, shape):
        return shape[:-1]
