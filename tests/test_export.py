"""The SavedModel answers as the model does, in every loader."""

import json
import shutil
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from electra_tf.config import load_config
from electra_tf.data.tokenization import Tokenizer, Vocabulary
from electra_tf.errors import InputError
from electra_tf.export import export_discriminator
from electra_tf.pretraining.objectives import build_objective

TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{i}" for i in range(25))]
HPARAMS = {
    "model_size": "tiny",
    "vocab_size": len(TOKENS),
    "max_seq_length": 16,
    "model_hparam_overrides": {
        "hidden_size": 16,
        "num_hidden_layers": 2,
        "intermediate_size": 32,
        "max_position_embeddings": 16,
    },
}


def objective_of(**hparams):
    config = load_config(data_dir="d", model_name="m", hparams=HPARAMS | hparams).config
    return build_objective(config, Vocabulary(TOKENS))


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    folder = tmp_path_factory.mktemp("serving")
    objective = objective_of()
    tokenizer = Tokenizer(Vocabulary(TOKENS))
    return objective, export_discriminator(objective, tokenizer, str(folder))


def batch(rows, length):
    generator = np.random.default_rng(rows)
    ids = generator.integers(5, len(TOKENS), (rows, length)).astype(np.int32)
    mask = (np.arange(length) < length - np.arange(rows)[:, None] % 3).astype(np.int32)
    return {"input_ids": ids * mask, "input_mask": mask, "segment_ids": 0 * ids}


@pytest.mark.parametrize("rows, length", [(1, 4), (7, 16), (3, 9)])
def test_any_batch_and_length_gets_the_models_answer(exported, rows, length):
    objective, path = exported
    features = batch(rows, length)
    answer = tf.saved_model.load(path).signatures["serving_default"](
        **{k: tf.constant(v) for k, v in features.items()}
    )
    logits = objective.discriminator(*features.values())
    np.testing.assert_allclose(answer["logits"], logits, atol=1e-5)
    assert (
        answer["replaced_probability"].numpy()[features["input_mask"] == 0] == 0
    ).all()


# What TF Serving's C++ loader does with a SavedModel, in a process that has only
# TensorFlow: the loader of graphs, which restores variables by the names in the graph.
GRAPH_LOADER = """
import json, sys
import tensorflow as tf
v1 = tf.compat.v1
features = json.load(open(sys.argv[2]))
with v1.Session(graph=tf.Graph()) as session:
    model = v1.saved_model.loader.load(session, ["serve"], sys.argv[1])
    signature = model.signature_def["serving_default"]
    feed = {signature.inputs[k].name: v for k, v in features.items()}
    logits = session.run(signature.outputs["logits"].name, feed)
json.dump(logits.tolist(), open(sys.argv[2] + ".out", "w"))
"""


def test_the_loader_of_graphs_finds_every_variable_after_a_move(exported, tmp_path):
    objective, path = exported
    moved = shutil.copytree(path, tmp_path / "elsewhere" / "1")
    features = batch(2, 8)
    place = tmp_path / "features.json"
    place.write_text(json.dumps({k: v.tolist() for k, v in features.items()}))
    subprocess.run(
        [sys.executable, "-c", GRAPH_LOADER, str(moved), str(place)],
        check=True,
        cwd=tmp_path,
    )
    logits = json.loads((tmp_path / "features.json.out").read_text())
    np.testing.assert_allclose(
        logits, objective.discriminator(*features.values()), atol=1e-5
    )


def test_the_tokenizer_travels_inside(exported):
    from electra_tf.data.tokenization import load_tokenizer

    inside = load_tokenizer(exported[1] + "/assets.extra")
    assert list(inside.vocabulary.tokens) == TOKENS


def test_an_existing_version_is_never_overwritten(exported, tmp_path):
    objective, _ = exported
    tokenizer = Tokenizer(Vocabulary(TOKENS))
    (tmp_path / "1").mkdir()
    with pytest.raises(InputError, match="exists: choose another --version"):
        export_discriminator(objective, tokenizer, str(tmp_path))
    export_discriminator(objective, tokenizer, str(tmp_path), version=2)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["1", "2"]


def test_a_masked_lm_has_no_discriminator_to_export(tmp_path):
    masked_lm = objective_of(electra_objective=False)
    with pytest.raises(InputError, match="no discriminator to export"):
        export_discriminator(masked_lm, None, str(tmp_path))
