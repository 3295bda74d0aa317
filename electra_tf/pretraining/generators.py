"""Generators: what proposes the replacements. Each maps masked inputs to logits."""

import keras
import tensorflow as tf


class MaskedLMGenerator(keras.Model):
    """A masked language model: an encoder, and a head at the chosen positions only.

    Shapes:
        masked_input_ids, input_mask, segment_ids: int32 [batch, seq_len]
        masked_lm_positions: int32 [batch, num_positions]
        returns: logits float32 [batch, num_positions, vocab_size]; with `return_all`
            also the encoder's dict of outputs
    """

    def __init__(self, *, encoder, head, **kwargs):
        super().__init__(**kwargs)
        self.encoder = encoder
        self.head = head

    def build(self, input_shape=None):
        if not self.encoder.built:
            self.encoder.build()
        if not self.head.built:
            self.head.build((None, None, self.encoder.hidden_size))

    def call(self, masked, training=False, return_all=False):
        outputs = self.encoder(
            masked.masked_input_ids,
            masked.input_mask,
            masked.segment_ids,
            training=training,
            return_all=return_all,
        )
        sequence = outputs["sequence_output"] if return_all else outputs
        chosen = tf.gather(sequence, masked.masked_lm_positions, batch_dims=1)
        logits = self.head(chosen)
        return (logits, outputs) if return_all else logits


class UniformGenerator(keras.Model):
    """Proposes every piece of the vocabulary alike; has no weights."""

    def __init__(self, *, vocab_size, **kwargs):
        super().__init__(**kwargs)
        self.vocab_size = vocab_size

    def build(self, input_shape=None):
        self.built = True

    def call(self, masked, training=False, return_all=False):
        shape = tf.shape(masked.masked_lm_positions)
        logits = tf.zeros([shape[0], shape[1], self.vocab_size])
        return (logits, {}) if return_all else logits
