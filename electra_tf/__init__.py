"""ELECTRA for TensorFlow and Keras 3.

Where to look: `config` holds every hyper-parameter; `data` turns text into batches;
`layers` and `encoder` are the network; `pretraining` masks, samples, corrupts and
scores; `training` is the loop, its optimizer and its checkpoints; `conversion` knows
the names of other releases; `export` writes SavedModels; `run_*` are the commands.

Importing this package imports nothing heavy: `electra_tf.Encoder` and
`electra_tf.load_objective` bring TensorFlow in when they are first used.
"""

import os

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # 0: all that TensorFlow says

__version__ = "0.1.0"

_LAZY = {
    "Encoder": "electra_tf.encoder",
    "PretrainingConfig": "electra_tf.config",
    "build_objective": "electra_tf.pretraining.objectives",
    "load_objective": "electra_tf.pretrained",
}


def __getattr__(name):
    if name not in _LAZY:
        raise AttributeError(f"module 'electra_tf' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_LAZY[name]), name)
