"""SavedModels for TF Serving: token ids in, probabilities of replacement out.

The exported module tracks the raw variables and nothing of Keras: a SavedModel of a
Keras object stores every weight twice, and TensorFlow's C++ loader, which TF Serving
uses, then restores only one of the two.
"""

import os
import shutil

import tensorflow as tf

from electra_tf.data.tokenization import save_tokenizer
from electra_tf.errors import InputError


class DiscriminatorModule(tf.Module):
    """The discriminator as a function of token ids.

    Signature `serving_default` (and `token_ids`, the same):
        input_ids, input_mask, segment_ids: int32 [batch, seq_len]
        replaced_probability: float32 [batch, seq_len], 0 at padding
        logits: float32 [batch, seq_len], above 0 where a token seems replaced
        sequence_output: float32 [batch, seq_len, hidden_size]
    """

    def __init__(self, objective):
        super().__init__()
        self.variables_to_save = [w.value for w in objective.discriminator.weights]
        discriminator = objective.discriminator
        ids = tf.TensorSpec([None, None], tf.int32)

        @tf.function(
            input_signature=[
                tf.TensorSpec(ids.shape, ids.dtype, name=name)
                for name in ("input_ids", "input_mask", "segment_ids")
            ]
        )
        def token_ids(input_ids, input_mask, segment_ids):
            logits, outputs = discriminator(
                input_ids, input_mask, segment_ids, training=False, return_all=True
            )
            mask = tf.cast(input_mask, tf.float32)
            return {
                "replaced_probability": tf.sigmoid(logits) * mask,
                "logits": logits,
                "sequence_output": tf.cast(outputs["sequence_output"], tf.float32),
            }

        self.token_ids = token_ids


def export_discriminator(objective, tokenizer, output_dir, version=1):
    """Writes `output_dir/<version>/` for TF Serving; returns that folder.

    The vocabulary and the tokenizer's settings travel inside, in `assets.extra`.

    Raises:
        InputError: no discriminator in the model, or that version exists.
    """
    if not hasattr(objective, "discriminator"):
        raise InputError(
            "this model has no discriminator to export: it was trained with "
            "electra_objective false"
        )
    target = os.path.join(output_dir, str(version))
    if tf.io.gfile.exists(target):
        raise InputError(
            f"{target} exists: choose another --version or --output_dir (nothing was "
            "written)"
        )
    temporary = target + ".unfinished"
    shutil.rmtree(temporary, ignore_errors=True)
    module = DiscriminatorModule(objective)
    try:
        tf.saved_model.save(
            module,
            temporary,
            signatures={
                "serving_default": module.token_ids,
                "token_ids": module.token_ids,
            },
        )
        extra = os.path.join(temporary, "assets.extra")
        os.makedirs(extra)
        save_tokenizer(extra, tokenizer.vocabulary, tokenizer.settings)
        os.replace(temporary, target)
    except (OSError, tf.errors.OpError) as error:
        shutil.rmtree(temporary, ignore_errors=True)
        raise InputError(f"{target} can't be written: {error}") from None
    return target
