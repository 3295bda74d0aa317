"""Two replicas learn what one does: each strategy in a process of its own."""

import json
import subprocess
import sys

import numpy as np
import pytest

# 20 steps, dropout 0, uneven padding, tokens that repeat, learning rate 1e-3.
SCRIPT = """
import sys, json
import numpy as np, tensorflow as tf
from electra_tf.config import load_config
from electra_tf.data.pipeline import open_shards, training_dataset
from electra_tf.pretraining.objectives import build_objective
from electra_tf.training.distribution import build_strategy
from electra_tf.training.loop import Hooks, evaluate, train
from electra_tf.training.optimizer import AdamWeightDecay

folder, name, replicas, output = sys.argv[1:5]
strategy = build_strategy(name, logical_cpus=int(replicas))
assert strategy.num_replicas_in_sync == int(replicas)
config = load_config(
    data_dir=folder, model_name="m",
    hparams=dict(
        model_size="tiny", vocab_size=60, max_seq_length=24, generator_hidden_size=0.5,
        train_batch_size=8, seed=3,
        model_hparam_overrides=dict(
            hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
            intermediate_size=64, max_position_embeddings=32,
            hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
        ),
    ),
).config

class Vocabulary:
    mask_id, cls_id, sep_id = 4, 2, 3

shards = open_shards(folder, 24)
tf.keras.utils.set_random_seed(7)
with strategy.scope():
    objective = build_objective(config, Vocabulary)
    optimizer = AdamWeightDecay(1e-3)
    optimizer.build(objective.trainable_variables)

def dataset(context):
    return training_dataset(
        shards, max_seq_length=24, global_batch_size=8, seed=5,
        num_replicas=strategy.num_replicas_in_sync,
    )

if strategy.num_replicas_in_sync == 1:
    batches = iter(dataset(None))
else:
    batches = iter(strategy.distribute_datasets_from_function(dataset))
log = []
def note(step, sums, rates):
    log.append({k: [float(t), float(w)] for k, (t, w) in sums["losses"].items()})
train(objective, optimizer, strategy, batches, start=0, num_steps=20,
      hooks=Hooks(log=note, log_steps=1), batch=8)
np.savez(output, **{w.path.replace("/", "|"): w.numpy() for w in objective.weights})
json.dump(log, open(output + ".json", "w"))
"""


@pytest.fixture(scope="module")
def uneven_records(tmp_path_factory):
    """Records whose first half of every batch is long and second half short."""
    from electra_tf.data.packing import pack
    from electra_tf.data.records import ShardWriter, serialize_example

    folder = tmp_path_factory.mktemp("records")
    generator = np.random.default_rng(0)
    with ShardWriter(folder / "pretrain_data.tfrecord-0-of-1") as writer:
        for i in range(40):
            length = 21 if i % 8 < 4 else 3 + i % 3
            ids = [int(x) for x in 5 + generator.zipf(1.5, length) % 50]
            first, second = ids[: length // 2], ids[length // 2 :]
            writer.write(serialize_example(pack(first, second, 24, 2, 3)))
    return folder


def run(folder, name, replicas, output):
    subprocess.run(
        [sys.executable, "-c", SCRIPT, str(folder), name, str(replicas), str(output)],
        check=True,
    )
    weights = dict(np.load(str(output) + ".npz"))
    return weights, json.load(open(str(output) + ".json"))


def test_two_mirrored_replicas_give_the_weights_of_one_device(uneven_records, tmp_path):
    one, one_log = run(uneven_records, "one_device", 1, tmp_path / "one")
    two, two_log = run(uneven_records, "mirrored", 2, tmp_path / "two")
    assert one.keys() == two.keys()
    for name in one:
        np.testing.assert_allclose(
            two[name], one[name], rtol=0, atol=1e-5, err_msg=name
        )
    for step, (a, b) in enumerate(zip(one_log, two_log)):
        for name in a:
            np.testing.assert_allclose(b[name], a[name], rtol=1e-4, err_msg=str(step))
    assert len(one_log) == 20
    # The weights did move, and the batch was unevenly padded.
    assert one_log[0]["rtd"] != one_log[-1]["rtd"]
