"""The update is the one that the original's file describes, number by number."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from electra_tf.training.optimizer import (
    AdamWeightDecay,
    first_match,
    weight_decay_rows,
)
from electra_tf.training.schedule import WarmupDecay

NAMES = ("word_embeddings", "kernel", "bias", "layer_norm_gamma")


def variables(start=1.0):
    return [keras.Variable(np.full([2], start, np.float32), name=n) for n in NAMES]


def oracle(p, gradients, rates, decay, factor=1.0):
    """Adam without bias correction, decay inside the rate, in float64."""
    m = v = np.zeros_like(p)
    for g, rate in zip(gradients, rates):
        m = 0.9 * m + 0.1 * g
        v = 0.999 * v + 0.001 * g**2
        p = p - rate * factor * (m / (np.sqrt(v) + 1e-6) + decay * p)
    return p, m, v


def test_five_updates_follow_a_numpy_oracle():
    random = np.random.default_rng(0)
    gradients = random.normal(size=(5, len(NAMES), 2))
    gradients[2, 1] = 0.0
    schedule = WarmupDecay(0.1, 10, 2)
    rates = [0.1 * (1 - t / 10) * min(1, t / 2) for t in range(1, 6)]
    rows = (("word_embeddings", 0.25), ("kernel", 0.5), (".", 1.0))
    optimizer = AdamWeightDecay(
        schedule, decay_rows=weight_decay_rows(0.01), rate_rows=rows
    )
    trained = variables()
    optimizer.build(trained)
    for g in gradients:
        optimizer.apply([tf.constant(x, tf.float32) for x in g], trained)
    assert int(optimizer.iterations) == 5
    slots = optimizer.slots(trained)
    decays, factors = (0.01, 0.01, 0, 0), (0.25, 0.5, 1, 1)
    for i, name in enumerate(NAMES):
        p, m, v = oracle(np.ones(2), gradients[:, i], rates, decays[i], factors[i])
        np.testing.assert_allclose(trained[i], p, rtol=1e-6, err_msg=name)
        np.testing.assert_allclose(slots[f"{name}/adam_m"], m, rtol=1e-5, atol=1e-8)
        np.testing.assert_allclose(slots[f"{name}/adam_v"], v, rtol=1e-5)


def test_the_first_update_is_not_bias_corrected():
    # m = 0.1, v = 0.001: a step of 0.1 / sqrt(0.001) = 3.16 rates, not of 1 rate.
    trained = [keras.Variable(np.zeros(1, np.float32), name="kernel")]
    AdamWeightDecay(1.0).apply([tf.ones([1])], trained)
    assert float(trained[0][0]) == pytest.approx(-0.1 / (0.001**0.5 + 1e-6), rel=1e-6)


def test_epsilon_is_added_outside_the_root():
    trained = [keras.Variable(np.zeros(1, np.float32), name="kernel")]
    AdamWeightDecay(1.0, epsilon=1.0).apply([tf.ones([1])], trained)
    assert float(trained[0][0]) == pytest.approx(-0.1 / (0.001**0.5 + 1), rel=1e-6)


def test_decay_is_within_the_rate_and_spares_bias_and_layer_norm_but_not_embeddings():
    trained = variables()
    optimizer = AdamWeightDecay(0.5, decay_rows=weight_decay_rows(0.1))
    optimizer.apply([tf.zeros([2])] * len(NAMES), trained)
    after = {n: float(v[0]) for n, v in zip(NAMES, trained)}
    assert after == pytest.approx(
        {"word_embeddings": 0.95, "kernel": 0.95, "bias": 1, "layer_norm_gamma": 1}
    )


@pytest.mark.parametrize(
    "path, decayed",
    [
        ("pretraining/embeddings/word_embeddings", True),
        ("pretraining/embeddings/position_embeddings", True),
        ("pretraining/embeddings/layer_norm/beta", False),
        ("pretraining/electra/layer_0/attention/query/kernel", True),
        ("pretraining/electra/layer_0/attention/query/bias", False),
        ("pretraining/electra/layer_0/attention_layer_norm/gamma", False),
        ("pretraining/electra/layer_0/output_layer_norm/gamma", False),
        ("pretraining/generator_predictions/output_bias", False),
        ("pretraining/discriminator_predictions/output_dense/kernel", True),
    ],
)
def test_which_weights_are_decayed(path, decayed):
    assert first_match(weight_decay_rows(0.01), path) == (0.01 if decayed else 0)


def test_the_first_row_that_matches_decides():
    rows = (("layer_1", 0.5), ("layer", 0.25), (".", 1.0))
    assert [first_match(rows, p) for p in ("a/layer_1", "a/layer_0", "a")] == [
        0.5,
        0.25,
        1.0,
    ]


@pytest.mark.parametrize("kind", ["decay_rows", "rate_rows"])
def test_a_variable_that_no_row_covers_is_refused_by_name(kind):
    optimizer = AdamWeightDecay(0.1, **{kind: (("kernel", 1.0),)})
    with pytest.raises(ValueError, match="no row covers the variable 'bias'"):
        optimizer.build([keras.Variable([0.0], name="bias")])


def test_updates_in_a_graph_equal_eager_updates():
    gradients = [[tf.fill([2], float(i + j)) for j in range(4)] for i in range(3)]
    results = []
    for wrap in (lambda f: f, tf.function):
        trained = variables()
        optimizer = AdamWeightDecay(WarmupDecay(0.1, 10, 2))
        optimizer.build(trained)
        update = wrap(lambda g: optimizer.apply(g, trained))
        for g in gradients:
            update(g)
        results.append(np.stack([np.array(v) for v in trained]))
    np.testing.assert_allclose(*results, rtol=1e-6)


def test_slots_are_named_by_the_path_of_their_variable():
    trained = variables()
    optimizer = AdamWeightDecay(0.1)
    optimizer.build(trained)
    assert set(optimizer.slots(trained)) == {
        f"{name}/{slot}" for name in NAMES for slot in ("adam_m", "adam_v")
    }


def test_an_optimizer_made_from_its_config_makes_the_same_update():
    one = AdamWeightDecay(
        0.1,
        decay_rows=weight_decay_rows(0.2),
        rate_rows=(("kernel", 0.5), (".", 1.0)),
        beta_1=0.8,
        epsilon=1e-3,
    )
    two = AdamWeightDecay.from_config(one.get_config())
    results = []
    for optimizer in (one, two):
        trained = variables()
        optimizer.apply([tf.ones([2])] * len(NAMES), trained)
        results.append(np.stack([np.array(v) for v in trained]))
    np.testing.assert_array_equal(*results)


def test_the_schedule_survives_the_optimizer_config():
    optimizer = AdamWeightDecay(WarmupDecay(0.1, 10, 2))
    config = keras.optimizers.serialize(optimizer)
    again = keras.optimizers.deserialize(
        config,
        custom_objects={"AdamWeightDecay": AdamWeightDecay, "WarmupDecay": WarmupDecay},
    )
    assert float(again.learning_rate) == float(optimizer.learning_rate) > 0
