"""The discriminator: an encoder that says of every token whether it was replaced."""

import keras


class Discriminator(keras.Model):
    """The network that we keep: an encoder, and a verdict on every token.

    Shapes:
        input_ids, input_mask, segment_ids: int32 [batch, seq_len]
        returns: logits float32 [batch, seq_len], above 0 where a token seems replaced;
            with `return_all` also the encoder's dict of outputs
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

    def call(
        self,
        input_ids,
        input_mask=None,
        segment_ids=None,
        training=False,
        return_all=False,
    ):
        outputs = self.encoder(
            input_ids, input_mask, segment_ids, training=training, return_all=return_all
        )
        if return_all:
            return self.head(outputs["sequence_output"]), outputs
        return self.head(outputs)
