"""Token, segment and position embeddings, summed, normalised, dropped out.

The generator and the discriminator may share one object: sharing embeddings means that
both encoders were given the same `Embeddings` (paper, section 3.2).
"""

import keras
import tensorflow as tf

from electra_tf.layers.dense import truncated_normal
from electra_tf.layers.dropout import Dropout
from electra_tf.layers.normalization import LayerNorm


class Embeddings(keras.layers.Layer):
    """Looks up and adds the three embeddings of every token.

    Shapes:
        input_ids: int [batch, seq_len]
        segment_ids: int [batch, seq_len], or None for all 0
        returns: float [batch, seq_len, embedding_size]
    """

    def __init__(
        self,
        *,
        vocab_size,
        embedding_size,
        max_position_embeddings,
        type_vocab_size,
        dropout,
        initializer_range=0.02,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.vocab_size = vocab_size
        self.embedding_size = embedding_size
        self.max_position_embeddings = max_position_embeddings
        self.type_vocab_size = type_vocab_size
        self.initializer_range = initializer_range
        self.layer_norm = LayerNorm(name="layer_norm", dtype=self.dtype_policy)
        self.dropout = Dropout(dropout, name="dropout", dtype=self.dtype_policy)

    def build(self, input_shape=None):
        def table(name, rows):
            return self.add_weight(
                shape=(rows, self.embedding_size),
                initializer=truncated_normal(self.initializer_range),
                name=name,
            )

        self.word_embeddings = table("word_embeddings", self.vocab_size)
        self.token_type_embeddings = table(
            "token_type_embeddings", self.type_vocab_size
        )
        self.position_embeddings = table(
            "position_embeddings", self.max_position_embeddings
        )
        self.layer_norm.build((None, None, self.embedding_size))
        self.dropout.build()

    def call(self, input_ids, segment_ids=None, training=False):
        length = input_ids.shape[1]
        if length is not None and length > self.max_position_embeddings:
            raise ValueError(
                f"input of length {length} is longer than the position table "
                f"({self.max_position_embeddings})"
            )
        if segment_ids is None:
            segment_ids = tf.zeros_like(input_ids)
        x = tf.gather(tf.convert_to_tensor(self.word_embeddings), input_ids)
        x += tf.gather(tf.convert_to_tensor(self.token_type_embeddings), segment_ids)
        x += tf.convert_to_tensor(self.position_embeddings)[: tf.shape(input_ids)[1]]
        return self.dropout(self.layer_norm(x), training=training)

    def compute_output_shape(self, shape, *_):
        return (*shape, self.embedding_size)
