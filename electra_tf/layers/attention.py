"""Multi-head self attention (Vaswani et al., 2017), the default token mixer."""

import keras
import tensorflow as tf

from electra_tf.layers.dense import Dense, truncated_normal
from electra_tf.layers.dropout import Dropout

# What the original adds to the score of a key that may not be attended to. Boolean
# masks come in; only here do they become a number, in float32.
MASKED_SCORE = -10000.0


class SelfAttention(keras.layers.Layer):
    """softmax(Q K^T / sqrt(head_size)) V, projected back to the hidden size.

    Shapes:
        x: float [batch, seq_len, hidden_size]
        attention_mask: bool [batch, seq_len or 1, seq_len], True where the query
            (axis 1) may attend to the key (axis 2); None allows all pairs
        returns: float [batch, seq_len, hidden_size]; with `return_attention` also the
            probabilities, float32 [batch, num_heads, seq_len, seq_len]
    """

    def __init__(self, *, num_heads, dropout, initializer_range=0.02, **kwargs):
        super().__init__(**kwargs)
        self.num_heads = num_heads
        self.initializer_range = initializer_range
        self.dropout = Dropout(dropout, name="dropout", dtype=self.dtype_policy)

    def build(self, shape):
        hidden_size = shape[-1]
        for name in ("query", "key", "value", "output_dense"):
            dense = Dense(
                hidden_size,
                kernel_initializer=truncated_normal(self.initializer_range),
                name=name,
                dtype=self.dtype_policy,
            )
            setattr(self, name, dense)
            dense.build(shape)
        self.dropout.build()

    def call(self, x, attention_mask=None, training=False, return_attention=False):
        shape = tf.shape(x)
        hidden_size = x.shape[-1]
        head_size = hidden_size // self.num_heads

        def heads(t):  # [B, L, H] -> [B, heads, L, head_size]
            t = tf.reshape(t, [shape[0], shape[1], self.num_heads, head_size])
            return tf.transpose(t, [0, 2, 1, 3])

        query = heads(self.query(x)) * tf.cast(head_size**-0.5, x.dtype)
        scores = tf.matmul(query, heads(self.key(x)), transpose_b=True)
        scores = tf.cast(scores, tf.float32)  # [B, heads, L, L]
        if attention_mask is not None:
            scores += tf.where(attention_mask, 0.0, MASKED_SCORE)[:, None]
        probs = tf.nn.softmax(scores)
        dropped = self.dropout(tf.cast(probs, x.dtype), training=training)
        context = tf.matmul(dropped, heads(self.value(x)))  # [B, heads, L, head_size]
        context = tf.reshape(tf.transpose(context, [0, 2, 1, 3]), shape)
        context.set_shape(x.shape)
        output = self.output_dense(context)
        return (output, probs) if return_attention else output

    def compute_output_shape(self, shape, *_):
        return shape
