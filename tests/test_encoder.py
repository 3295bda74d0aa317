"""The encoder: its shapes, its use in a model of one's own, its weights' names."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from electra_tf.encoder import Encoder
from electra_tf.layers.embeddings import Embeddings

CLS, SEP, PAD = 2, 3, 0
IDS = np.array([[CLS, 11, 12, 13, SEP, PAD], [CLS, 14, SEP, PAD, PAD, PAD]], np.int32)
MASK = (IDS != PAD).astype(np.int32)
SEGMENTS = np.array([[0, 0, 0, 1, 1, 0]] * 2, np.int32)


def embeddings_of(size, dropout=0.0, name="embeddings"):
    return Embeddings(
        vocab_size=20,
        embedding_size=size,
        max_position_embeddings=8,
        type_vocab_size=2,
        dropout=dropout,
        initializer_range=0.5,
        name=name,
    )


def encoder_of(embeddings, *, hidden_size=8, dropout=0.0, layers=2, name="encoder"):
    return Encoder(
        embeddings=embeddings,
        hidden_size=hidden_size,
        num_hidden_layers=layers,
        num_attention_heads=2,
        intermediate_size=12,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
        initializer_range=0.5,
        name=name,
    )


@pytest.fixture(scope="module")
def encoder():
    keras.utils.set_random_seed(0)
    built = encoder_of(embeddings_of(4))
    built.build()
    return built


@pytest.mark.parametrize("embedding_size", [4, 8])
def test_shapes_with_and_without_a_projection(embedding_size):
    encoder = encoder_of(embeddings_of(embedding_size))
    outputs = encoder(IDS, MASK, SEGMENTS, return_all=True)
    projected = any("embeddings_project" in w.path for w in encoder.weights)
    assert projected == (embedding_size == 4)
    assert outputs["embedding_output"].shape == (2, 6, embedding_size)
    assert outputs["encoder_input"].shape == (2, 6, 8)
    assert outputs["sequence_output"].shape == (2, 6, 8)
    assert outputs["pooled_output"].shape == (2, 8)
    assert [s.shape for s in outputs["hidden_states"]] == [(2, 6, 8)] * 2
    assert [a.shape for a in outputs["attentions"]] == [(2, 2, 6, 6)] * 2
    assert encoder(IDS, MASK, SEGMENTS).shape == (2, 6, 8)


def test_asking_for_all_outputs_does_not_change_the_output(encoder):
    outputs = encoder(IDS, MASK, SEGMENTS, return_all=True)
    sequence = encoder(IDS, MASK, SEGMENTS)
    np.testing.assert_allclose(outputs["sequence_output"], sequence, rtol=1e-6)
    np.testing.assert_array_equal(
        outputs["hidden_states"][-1], outputs["sequence_output"]
    )
    np.testing.assert_array_equal(
        outputs["pooled_output"], outputs["sequence_output"][:, 0]
    )


def test_the_content_and_the_amount_of_padding_change_no_real_output(encoder):
    other = np.where(MASK, IDS, 17)
    one, two = encoder(IDS, MASK).numpy(), encoder(other, MASK).numpy()
    np.testing.assert_array_equal(one[MASK > 0], two[MASK > 0])
    short = encoder(IDS[1:, :3], MASK[1:, :3])
    np.testing.assert_allclose(one[1:, :3], short, rtol=1e-4, atol=1e-5)


def test_without_the_mask_padding_does_change_them(encoder):
    other = np.where(MASK, IDS, 17)
    assert np.abs(encoder(IDS) - encoder(other))[MASK > 0].max() > 1e-3


def test_no_mask_means_all_ones_and_no_segments_all_zeros(encoder):
    ones, zeros = np.ones_like(IDS), np.zeros_like(IDS)
    np.testing.assert_allclose(encoder(IDS), encoder(IDS, ones, zeros), rtol=1e-6)


@pytest.mark.parametrize("dtype", [bool, np.float32, np.int64])
def test_the_mask_may_be_of_any_type(encoder, dtype):
    np.testing.assert_array_equal(encoder(IDS, MASK.astype(dtype)), encoder(IDS, MASK))


def test_segments_and_order_of_tokens_matter(encoder):
    assert np.abs(encoder(IDS, MASK, SEGMENTS) - encoder(IDS, MASK)).max() > 1e-3
    swapped = IDS[:, [0, 2, 1, 3, 4, 5]]
    pooled = [encoder(x, MASK)[0, 0] for x in (IDS, swapped)]
    assert np.abs(pooled[0] - pooled[1]).max() > 1e-4


def test_a_graph_of_any_batch_and_length_equals_eager(encoder):
    spec = tf.TensorSpec([None, None], tf.int32)
    graph = tf.function(encoder, input_signature=[spec, spec, spec])
    for stop in (6, 3):
        arguments = IDS[:, :stop], MASK[:, :stop], SEGMENTS[:, :stop]
        np.testing.assert_allclose(
            graph(*arguments), encoder(*arguments), rtol=1e-4, atol=1e-5
        )


def test_an_input_longer_than_the_position_table_is_refused(encoder):
    with pytest.raises(ValueError, match="length 9 is longer than the position table"):
        encoder(np.zeros([1, 9], np.int32))


def test_every_weight_has_a_path_of_its_own_that_says_where_it_is(encoder):
    paths = [w.path for w in encoder.weights]
    assert len(set(paths)) == len(paths) == 5 + 2 + 2 * 16
    assert "encoder/layer_1/attention/query/kernel" in paths
    assert all(w.trainable for w in encoder.weights if "seed" not in w.path)


def test_two_encoders_given_one_embeddings_object_share_its_weights():
    shared = embeddings_of(4)
    shared.build()
    one = encoder_of(shared, layers=1, name="one")
    two = encoder_of(shared, layers=1, name="two", hidden_size=6)
    one.build(), two.build()
    common = {w.path for w in one.weights} & {w.path for w in two.weights}
    assert common == {w.path for w in shared.weights}
    before = two(IDS, MASK).numpy()
    shared.word_embeddings.assign_add(np.random.default_rng(0).normal(size=[20, 4]))
    assert np.abs(two(IDS, MASK) - before).max() > 1e-3


def classifier(encoder):
    inputs = [
        keras.Input((None,), dtype="int32", name=name)
        for name in ("input_ids", "input_mask", "segment_ids")
    ]
    logits = keras.layers.Dense(2, name="classes")(encoder(*inputs)[:, 0])
    model = keras.Model(inputs, logits)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(0.01), loss, jit_compile=False)
    return model


def test_in_a_functional_keras_model_it_trains_and_its_weights_are_saved(tmp_path):
    model = classifier(encoder_of(embeddings_of(4), dropout=0.1, layers=1))
    before = {w.path: w.numpy() for w in model.trainable_weights}
    x, y = [IDS, MASK, SEGMENTS], np.array([0, 1])
    model.fit(x, y, batch_size=2, epochs=2, verbose=0)
    stayed = [w.path for w in model.trainable_weights
              if np.array_equal(w, before[w.path])]  # fmt: skip
    assert not [path for path in stayed if "key/bias" not in path]
    predicted = model.predict(x, verbose=0)
    model.save_weights(tmp_path / "model.weights.h5")
    again = classifier(encoder_of(embeddings_of(4), layers=1))
    again.load_weights(tmp_path / "model.weights.h5")
    np.testing.assert_allclose(again.predict(x, verbose=0), predicted, rtol=1e-5)


def test_in_a_functional_keras_model_it_gives_all_outputs_on_request(encoder):
    ids = keras.Input((6,), dtype="int32")
    outputs = encoder(ids, return_all=True)
    model = keras.Model(ids, [outputs["pooled_output"], *outputs["attentions"]])
    np.testing.assert_allclose(model(IDS)[0], encoder(IDS)[:, 0], rtol=1e-5)


def test_there_is_dropout_in_training_and_none_at_inference():
    encoder = encoder_of(embeddings_of(4, dropout=0.5), dropout=0.5)
    one, two = (encoder(IDS, MASK, training=True) for _ in range(2))
    assert np.abs(one - two).max() > 1e-3
    np.testing.assert_array_equal(encoder(IDS, MASK), encoder(IDS, MASK))
