"""Brings a trained model back: objective, config and tokenizer from its folder."""

import os

from electra_tf.config import saved_config
from electra_tf.data.tokenization import load_tokenizer
from electra_tf.model_folder import variables_of
from electra_tf.pretraining.objectives import build_objective
from electra_tf.training.checkpoint import find_checkpoint, restore


def load_objective(model_dir, checkpoint=None):
    """Loads generator, discriminator and heads.

    Args:
        model_dir: folder written by run_pretraining (`data_dir/models/<name>`)
        checkpoint: folder of one checkpoint; None: the best, else the latest
    Returns: the objective, its PretrainingConfig and its Tokenizer.
    Raises:
        InputError: no such model, no checkpoint, or one that doesn't fit.
    """
    config = saved_config(model_dir)
    tokenizer = load_tokenizer(model_dir)
    if checkpoint is None:
        checkpoint = find_checkpoint(os.path.join(model_dir, "checkpoints"))
    objective = build_objective(config, tokenizer.vocabulary)
    restore(checkpoint, variables_of(objective))
    return objective, config, tokenizer
