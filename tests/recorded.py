"""Reads the recorded numbers and builds the models that they were recorded from."""

import json

import numpy as np

from electra_tf.config import EncoderConfig, PretrainingConfig
from electra_tf.conversion.names import below_root, to_tf1
from electra_tf.data.tokenization import Vocabulary
from electra_tf.pretraining.masking import MaskedInputs
from electra_tf.pretraining.objectives import build_objective

BASE = "a_default"


def read_json(folder, name):
    return json.loads((folder / name).read_text())


def variants(folder):
    """The recorded variants of the model, by name, without the notes."""
    if not (folder / "model_forward.json").exists():
        return {}
    recorded = read_json(folder, "model_forward.json")
    return {k: v for k, v in recorded.items() if isinstance(v, dict) and "config" in v}


def arrays(folder, variant):
    """A variant's arrays; those that equal the base's are stored only there.

    A base array of another shape than the variant's variable is not the variant's.
    """
    found = own_arrays(folder, BASE)
    if variant == BASE:
        return found
    shapes = {
        name: tuple(shape) for name, shape in variants(folder)[variant]["variables"]
    }
    base = {
        key: array
        for key, array in found.items()
        if shapes.get(key.split("/", 1)[1], array.shape) == array.shape
    }
    return base | own_arrays(folder, variant)


def own_arrays(folder, variant):
    return dict(np.load(folder / f"model_forward_{variant}.npz"))


def config_of(record):
    """Our config for a recorded run, checked to give the recorded encoder."""
    config = PretrainingConfig(data_dir=".", compat="original", **record["config"])
    shape = {
        k: v
        for k, v in record["bert_config"].items()
        if k in EncoderConfig.__dataclass_fields__
    }
    for name, value in shape.items():
        assert getattr(config.discriminator, name) == value, name
    return config


def vocabulary_of(folder):
    return Vocabulary.load(str(folder / "vocab_small.txt"))


def objective_of(folder, variant):
    """Our model of a recorded variant, with the recorded weights."""
    record = variants(folder)[variant]
    objective = build_objective(config_of(record), vocabulary_of(folder))
    set_weights(objective, arrays(folder, variant))
    return objective


def by_tf1_name(objective):
    return {to_tf1(below_root(w.path)): w for w in objective.weights}


def set_weights(objective, values, prefix="var/"):
    for name, weight in by_tf1_name(objective).items():
        weight.assign(values[prefix + name])


def batch_of(inputs, prefix="in/"):
    names = ("input_ids", "input_mask", "segment_ids")
    return {name: inputs[prefix + name] for name in names}


def masked_inputs_of(original, masked, masked_prefix):
    return MaskedInputs(
        input_ids=original["input_ids"],
        masked_input_ids=masked[f"{masked_prefix}input_ids"],
        input_mask=original["input_mask"],
        segment_ids=original["segment_ids"],
        masked_lm_positions=masked[f"{masked_prefix}masked_lm_positions"],
        masked_lm_ids=masked[f"{masked_prefix}masked_lm_ids"],
        masked_lm_weights=masked[f"{masked_prefix}masked_lm_weights"],
    )


def assert_close(ours, recorded, variant=BASE, what=""):
    """Variant a is exact float32; the others were rounded. Floor: 1e-6."""
    recorded = np.asarray(recorded, np.float64)
    size = float(np.max(np.abs(recorded), initial=0))  # what float32 sums round to
    rtol, atol = 2.0**-12, 1e-6 * max(size, 1.0)
    if variant == BASE:
        rtol, atol = 1e-5, max(1e-5 * size, 1e-6)
    np.testing.assert_allclose(
        np.asarray(ours, np.float64).reshape(recorded.shape),
        recorded,
        rtol=rtol,
        atol=atol,
        err_msg=f"{variant}: {what}",
    )
