"""The one table between our variable names and those of the original's checkpoints."""

import re

# (ours, the original's), applied in turn to the path below the model's root.
PREFIXES = (
    (r"^embeddings/", "electra/embeddings/"),
    (r"^generator_embeddings/", "generator/embeddings/"),
    (r"^(electra|generator)/layer_(\d+)/", r"\1/encoder/layer_\2/"),
)
PARTS = (
    (r"attention/(query|key|value)/", r"attention/self/\1/"),
    (r"attention/output_dense/", "attention/output/dense/"),
    (r"attention_layer_norm/", "attention/output/LayerNorm/"),
    (r"intermediate/", "intermediate/dense/"),
    (r"(layer_\d+)/output_dense/", r"\1/output/dense/"),
    (r"output_layer_norm/", "output/LayerNorm/"),
    (r"layer_norm/", "LayerNorm/"),
    (r"^discriminator_predictions/output_dense/", "discriminator_predictions/dense_1/"),
)


def below_root(path):
    """A variable's name in our checkpoints: its Keras path without the model's name."""
    return path.split("/", 1)[1]


def to_tf1(name):
    """The original's name of one of our variables (slots keep their last part)."""
    for pattern, replacement in PREFIXES + PARTS:
        name = re.sub(pattern, replacement, name)
    return name
