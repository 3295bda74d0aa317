"""One Transformer block, normalised after each half (Vaswani et al., 2017)."""

import keras

from electra_tf.layers.dense import Dense, truncated_normal
from electra_tf.layers.dropout import Dropout
from electra_tf.layers.normalization import LayerNorm


class EncoderBlock(keras.layers.Layer):
    """Post-norm Transformer block: mix across tokens, then transform each one.

    `mixer` is any layer called as `mixer(x, attention_mask)`, so self attention,
    disentangled attention and Fourier mixing are interchangeable.

    Shapes:
        x: float [batch, seq_len, hidden_size]
        attention_mask: bool [batch, seq_len or 1, seq_len], True where the query
            (axis 1) may attend to the key (axis 2); None allows all pairs
        returns: float [batch, seq_len, hidden_size]
    """

    def __init__(
        self,
        *,
        mixer,
        hidden_size,
        intermediate_size,
        activation,
        dropout,
        initializer_range=0.02,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.hidden_size = hidden_size
        self.attention = mixer
        self.intermediate = Dense(
            intermediate_size,
            activation=activation,
            kernel_initializer=truncated_normal(initializer_range),
            name="intermediate",
            dtype=self.dtype_policy,
        )
        self.output_dense = Dense(
            hidden_size,
            kernel_initializer=truncated_normal(initializer_range),
            name="output_dense",
            dtype=self.dtype_policy,
        )
        self.attention_layer_norm = LayerNorm(
            name="attention_layer_norm", dtype=self.dtype_policy
        )
        self.output_layer_norm = LayerNorm(
            name="output_layer_norm", dtype=self.dtype_policy
        )
        self.attention_dropout = Dropout(
            dropout, name="attention_dropout", dtype=self.dtype_policy
        )
        self.output_dropout = Dropout(
            dropout, name="output_dropout", dtype=self.dtype_policy
        )

    def build(self, shape):
        self.attention.build(shape)
        self.attention_dropout.build()
        self.attention_layer_norm.build(shape)
        self.intermediate.build(shape)
        self.output_dense.build((None, None, self.intermediate.units))
        self.output_dropout.build()
        self.output_layer_norm.build(shape)

    def call(self, x, attention_mask=None, training=False, return_attention=False):
        probs = None
        if return_attention:
            mixed, probs = self.attention(
                x, attention_mask, training=training, return_attention=True
            )
        else:
            mixed = self.attention(x, attention_mask, training=training)
        mixed = self.attention_dropout(mixed, training=training)
        x = self.attention_layer_norm(x + mixed)
        y = self.output_dense(self.intermediate(x))
        x = self.output_layer_norm(x + self.output_dropout(y, training=training))
        return (x, probs) if return_attention else x

    def compute_output_shape(self, shape, *_):
        return shape
