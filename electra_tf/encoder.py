"""The encoder: embeddings, an optional projection, and a stack of Transformer blocks.

This is the network that pre-training is for. It has no pooler: ELECTRA's sentence
vector is the output at [CLS].
"""

import os

import keras
import tensorflow as tf

from electra_tf.config import saved_config
from electra_tf.layers.activations import ACTIVATIONS
from electra_tf.layers.attention import SelfAttention
from electra_tf.layers.dense import Dense
from electra_tf.layers.embeddings import Embeddings
from electra_tf.layers.encoder_block import EncoderBlock
from electra_tf.training.checkpoint import find_checkpoint, restore


class Encoder(keras.layers.Layer):
    """Turns token ids into contextual vectors.

    `embeddings` may be shared with another encoder; the projection, which is there
    only where the embeddings are not as wide as the encoder, is this encoder's own.

    Shapes:
        input_ids: int [batch, seq_len]
        input_mask: int or bool [batch, seq_len], 0 where padding; None: no padding
        segment_ids: int [batch, seq_len]; None: all 0
        returns: float [batch, seq_len, hidden_size]; with `return_all` a dict of
            `sequence_output`, `pooled_output` [batch, hidden_size],
            `embedding_output` [batch, seq_len, embedding_size], `encoder_input`,
            `hidden_states` (a list, one per block) and `attentions` (a list of
            float32 [batch, num_heads, seq_len, seq_len])
    """

    def __init__(
        self,
        *,
        embeddings,
        hidden_size,
        num_hidden_layers,
        num_attention_heads,
        intermediate_size,
        hidden_act="gelu",
        hidden_dropout_prob=0.1,
        attention_probs_dropout_prob=0.1,
        initializer_range=0.02,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.embeddings = embeddings
        self.hidden_size = hidden_size
        self.embeddings_project = None
        if embeddings.embedding_size != hidden_size:
            self.embeddings_project = Dense(
                hidden_size,
                kernel_initializer="glorot_uniform",
                name="embeddings_project",
                dtype=self.dtype_policy,
            )
        self.blocks = [
            EncoderBlock(
                mixer=SelfAttention(
                    num_heads=num_attention_heads,
                    dropout=attention_probs_dropout_prob,
                    initializer_range=initializer_range,
                    name="attention",
                    dtype=self.dtype_policy,
                ),
                hidden_size=hidden_size,
                intermediate_size=intermediate_size,
                activation=ACTIVATIONS[hidden_act],
                dropout=hidden_dropout_prob,
                initializer_range=initializer_range,
                name=f"layer_{i}",
                dtype=self.dtype_policy,
            )
            for i in range(num_hidden_layers)
        ]

    def build(self, input_shape=None):
        # Whoever builds a shared layer first names its weights: objectives build
        # shared embeddings at the root before they build an encoder.
        if not self.embeddings.built:
            self.embeddings.build()
        if self.embeddings_project is not None:
            self.embeddings_project.build((None, None, self.embeddings.embedding_size))
        for block in self.blocks:
            block.build((None, None, self.hidden_size))

    def call(
        self,
        input_ids,
        input_mask=None,
        segment_ids=None,
        training=False,
        return_all=False,
    ):
        embedded = self.embeddings(input_ids, segment_ids, training=training)
        x = embedded  # [B, L, E]
        if self.embeddings_project is not None:
            x = self.embeddings_project(x)  # [B, L, H]
        attention_mask = None
        if input_mask is not None:
            attention_mask = tf.cast(input_mask, tf.bool)[:, None, :]
        encoder_input, states, attentions = x, [], []
        for block in self.blocks:
            if return_all:
                x, probs = block(
                    x, attention_mask, training=training, return_attention=True
                )
                attentions.append(probs)
                states.append(x)
            else:
                x = block(x, attention_mask, training=training)
        if not return_all:
            return x
        return {
            "sequence_output": x,
            "pooled_output": x[:, 0],
            "embedding_output": embedded,
            "encoder_input": encoder_input,
            "hidden_states": states,
            "attentions": attentions,
        }

    @classmethod
    def from_pretrained(cls, model_dir, checkpoint=None):
        """Loads the discriminator's encoder of a pre-trained model.

        Args:
            model_dir: folder written by run_pretraining (`data_dir/models/<name>`)
            checkpoint: folder of one checkpoint; None: the best, else the latest
        Returns: a built `Encoder`, to drop into a model of your own.
        Raises:
            InputError: no such model, or no checkpoint in it.
        """
        config = saved_config(model_dir).discriminator
        if checkpoint is None:
            checkpoint = find_checkpoint(os.path.join(model_dir, "checkpoints"))
        embeddings = build_embeddings(config)
        embeddings.build()
        encoder = build_encoder(config, embeddings, name="electra")
        encoder.build()
        restore(checkpoint, {weight.path: weight for weight in encoder.weights})
        return encoder


def build_embeddings(config, name="embeddings"):
    return Embeddings(
        vocab_size=config.vocab_size,
        embedding_size=config.embedding_size,
        max_position_embeddings=config.max_position_embeddings,
        type_vocab_size=config.type_vocab_size,
        dropout=config.hidden_dropout_prob,
        initializer_range=config.initializer_range,
        name=name,
    )


def build_encoder(config, embeddings, name="encoder"):
    """Builds an encoder of the shape that an EncoderConfig describes."""
    return Encoder(
        embeddings=embeddings,
        hidden_size=config.hidden_size,
        num_hidden_layers=config.num_hidden_layers,
        num_attention_heads=config.num_attention_heads,
        intermediate_size=config.intermediate_size,
        hidden_act=config.hidden_act,
        hidden_dropout_prob=config.hidden_dropout_prob,
        attention_probs_dropout_prob=config.attention_probs_dropout_prob,
        initializer_range=config.initializer_range,
        name=name,
    )
