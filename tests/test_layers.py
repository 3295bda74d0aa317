"""Each layer computes its formula, and hand-written gradients are the formula's."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from scipy import special

from electra_tf.layers.activations import gelu
from electra_tf.layers.attention import SelfAttention
from electra_tf.layers.dense import Dense, truncated_normal
from electra_tf.layers.dropout import Dropout, dropout_seed
from electra_tf.layers.embeddings import Embeddings
from electra_tf.layers.encoder_block import EncoderBlock
from electra_tf.layers.heads import MaskedLMHead, ReplacedTokenHead
from electra_tf.layers.normalization import LayerNorm, layer_norm


def normal(*shape, seed=0, scale=1.0):
    return np.random.default_rng(seed).normal(scale=scale, size=shape)


def gradients(function, arguments, upstream):
    arguments = [tf.constant(a) for a in arguments]
    with tf.GradientTape() as tape:
        tape.watch(arguments)
        y = tf.reduce_sum(function(*arguments) * upstream)
    return tape.gradient(y, arguments)


# Activations


def test_gelu_is_the_exact_one_and_not_the_tanh_approximation():
    x = np.array([-3.0, -1.0, 0.0, 1.0, 3.0])
    exact = x * special.ndtr(x)
    np.testing.assert_allclose(gelu(tf.constant(x)), exact, rtol=1e-12)
    approximate = tf.nn.gelu(tf.constant(x), approximate=True)
    assert np.abs(approximate - exact).max() > 1e-4


@pytest.mark.parametrize("dtype, rtol", [(np.float64, 1e-10), (np.float32, 1e-5)])
def test_the_gradient_of_gelu_is_that_of_its_formula(dtype, rtol):
    x = np.linspace(-6, 6, 61).astype(dtype)
    upstream = normal(61).astype(dtype)
    ours = gradients(gelu, [x], upstream)
    formula = gradients(
        lambda x: 0.5 * x * (1 + tf.math.erf(x / tf.sqrt(tf.constant(2.0, x.dtype)))),
        [x],
        upstream,
    )
    np.testing.assert_allclose(ours[0], formula[0], rtol=rtol, atol=rtol / 10)


@pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16, tf.float32])
def test_gelu_of_large_numbers_is_finite_with_finite_gradients(dtype):
    x = tf.constant([-3e4, -300.0, 300.0, 3e4], dtype)
    (slope,) = gradients(gelu, [x], tf.ones([4], dtype))
    np.testing.assert_array_equal(tf.cast(gelu(x), tf.float32)[:2], [0, 0])
    np.testing.assert_array_equal(tf.cast(slope, tf.float32), [0, 0, 1, 1])


# LayerNorm


def plain_layer_norm(x, gamma, beta):
    mean, variance = tf.nn.moments(x, -1, keepdims=True)
    return gamma * (x - mean) / tf.sqrt(variance + 1e-12) + beta


def test_layer_norm_of_a_row_computed_by_hand():
    # mean 2, variance 1
    y = layer_norm(tf.constant([[1.0, 3.0]]), tf.constant([2.0, 2.0]), [0.5, 0.5])
    np.testing.assert_allclose(y, [[-1.5, 2.5]], rtol=1e-6)


def test_layer_norm_has_the_original_epsilon():
    # Standard deviation 1e-6: epsilon 1e-12 halves the variance, 1e-3 would leave 0.
    y = layer_norm(tf.constant([[-1e-6, 1e-6]]), tf.ones([2]), tf.zeros([2]))
    np.testing.assert_allclose(y, [[-(0.5**0.5), 0.5**0.5]], rtol=1e-4)


@pytest.mark.parametrize("shape", [(5, 8), (2, 3, 8), (2, 2, 3, 8)])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_gradients_of_layer_norm_are_those_of_its_formula(shape, dtype):
    arguments = normal(*shape, scale=3.0), normal(8, seed=1), normal(8, seed=2)
    upstream = normal(*shape, seed=3)
    formula = gradients(plain_layer_norm, arguments, upstream)
    value = plain_layer_norm(*arguments)
    arguments = [a.astype(dtype) for a in arguments]
    ours = gradients(layer_norm, arguments, upstream.astype(dtype))
    # float32 inside, whatever comes in
    np.testing.assert_allclose(layer_norm(*arguments), value, rtol=1e-4, atol=1e-5)
    for our, wanted, argument in zip(ours, formula, arguments):
        assert our.dtype == argument.dtype and our.shape == argument.shape
        np.testing.assert_allclose(our, wanted, rtol=1e-4, atol=1e-5)


def test_layer_norm_of_half_precision_is_computed_in_float32():
    x = tf.cast(1000 + normal(4, 64), tf.bfloat16)  # steps of 4 to 8 in bfloat16
    y = layer_norm(x, tf.ones([64]), tf.zeros([64]))
    assert y.dtype == tf.bfloat16
    wanted = plain_layer_norm(tf.cast(x, tf.float64), 1.0, 0.0)
    np.testing.assert_allclose(tf.cast(y, tf.float64), wanted, rtol=2**-8, atol=1e-3)


def test_layer_norm_of_a_constant_row_is_beta():
    y = LayerNorm()(tf.ones([2, 4]))
    np.testing.assert_array_equal(y, np.zeros([2, 4]))


# Dense


def test_dense_is_x_times_kernel_plus_bias_for_any_rank():
    dense = Dense(2, activation=tf.nn.relu)
    dense.build((None, 3))
    dense.kernel.assign([[1, 0], [0, 1], [1, -1]])
    dense.bias.assign([0.5, -0.5])
    x = np.array([1.0, 2.0, 3.0], np.float32)  # [4, -1] + [.5, -.5]
    np.testing.assert_array_equal(dense(x[None]), [[4.5, 0]])
    np.testing.assert_array_equal(dense(x[None, None]), [[[4.5, 0]]])
    np.testing.assert_array_equal(dense(x[None, None, None]), [[[[4.5, 0]]]])


def test_initial_weights_are_cut_at_two_deviations_and_not_rescaled():
    sample = np.asarray(truncated_normal(0.02, seed=1)((400, 400)))
    assert np.abs(sample).max() <= 0.04
    assert sample.std() == pytest.approx(0.02 * 0.8796, rel=0.02)


# Attention


@pytest.fixture(scope="module")
def attention():
    keras.utils.set_random_seed(0)
    layer = SelfAttention(num_heads=2, dropout=0.0, initializer_range=0.5)
    layer.build((None, None, 8))
    return layer


def test_attention_is_softmax_of_scaled_products_times_values(attention):
    x = normal(1, 3, 8).astype(np.float32)
    ours, probs = attention(x, return_attention=True)
    q, k, v = (
        (x[0] @ np.array(d.kernel)).reshape(3, 2, 4)
        for d in (attention.query, attention.key, attention.value)
    )
    context = np.zeros([3, 2, 4])
    for head in range(2):
        weights = special.softmax(q[:, head] @ k[:, head].T / 2.0, -1)  # sqrt(4)
        np.testing.assert_allclose(probs[0, head], weights, rtol=1e-4)
        context[:, head] = weights @ v[:, head]
    wanted = context.reshape(3, 8) @ np.array(attention.output_dense.kernel)
    np.testing.assert_allclose(ours[0], wanted, rtol=1e-4, atol=1e-5)


def test_a_hidden_key_gets_no_attention_from_any_query(attention):
    x = normal(2, 4, 8).astype(np.float32)
    mask = tf.constant([[[True, True, False, True]], [[True, True, True, False]]])
    _, probs = attention(x, mask, return_attention=True)
    assert np.all(probs[0, :, :, 2] == 0) and np.all(probs[1, :, :, 3] == 0)
    np.testing.assert_allclose(tf.reduce_sum(probs, -1), np.ones([2, 2, 4]), rtol=1e-6)


def test_the_content_of_padding_changes_no_real_output(attention):
    x = normal(1, 5, 8).astype(np.float32)
    other = x.copy()
    other[:, 3:] = 100.0
    mask = tf.constant([[[True, True, True, False, False]]])
    one, two = attention(x, mask), attention(other, mask)
    np.testing.assert_array_equal(one[:, :3], two[:, :3])
    np.testing.assert_allclose(one[:, :3], attention(x[:, :3]), rtol=1e-5, atol=1e-6)


def test_a_mask_of_queries_and_keys_lets_a_token_see_only_the_left(attention):
    x = normal(1, 4, 8).astype(np.float32)
    causal = tf.constant(np.tril(np.ones([1, 4, 4], bool)))
    other = x.copy()
    other[:, 3] = 9.0
    np.testing.assert_array_equal(
        attention(x, causal)[:, :3], attention(other, causal)[:, :3]
    )


def test_no_mask_and_a_mask_of_ones_are_the_same(attention):
    x = normal(1, 4, 8).astype(np.float32)
    ones = tf.ones([1, 1, 4], tf.bool)
    np.testing.assert_array_equal(attention(x), attention(x, ones))


def test_a_row_of_padding_alone_gives_finite_numbers(attention):
    x = normal(1, 4, 8).astype(np.float32)
    assert np.isfinite(attention(x, tf.zeros([1, 1, 4], tf.bool))).all()


def test_the_encoder_block_adds_and_then_normalises(attention):
    class Double(keras.layers.Layer):
        def call(self, x, attention_mask=None, training=False):
            return 2 * x

    block = EncoderBlock(
        mixer=Double(),
        hidden_size=4,
        intermediate_size=6,
        activation=gelu,
        dropout=0.0,
    )
    x = normal(1, 2, 4).astype(np.float32)
    block.build(x.shape)
    block.output_dense.kernel.assign(tf.zeros([6, 4]))
    wanted = plain_layer_norm(plain_layer_norm(3 * x, 1.0, 0.0), 1.0, 0.0)
    np.testing.assert_allclose(block(x), wanted, rtol=1e-4, atol=1e-5)


# Dropout


class Two(keras.layers.Layer):
    def __init__(self, rate=0.5, **kwargs):
        super().__init__(**kwargs)
        self.one = Dropout(rate, name="one")
        self.other = Dropout(rate, name="other")

    def call(self, x, training=False):
        return self.one(x, training=training), self.other(x, training=training)


def seed(step):
    return tf.constant([7, step], tf.int32)


def test_the_mask_of_dropout_is_a_function_of_seed_step_and_place():
    x, two = tf.ones([4, 50]), Two(name="two")
    with dropout_seed(seed(0)):
        one, other = two(x, training=True)
    with dropout_seed(seed(0)):
        again = Two(name="two")(x, training=True)[0]  # another object, the same place
    with dropout_seed(seed(1)):
        later = two(x, training=True)[0]
    np.testing.assert_array_equal(one, again)
    assert not np.array_equal(one, other)
    assert not np.array_equal(one, later)


def test_dropout_in_a_graph_equals_eager_dropout():
    x, layer = tf.ones([4, 50]), Dropout(0.5, name="dropout")

    def call(step):
        with dropout_seed(tf.stack([7, step])):
            return layer(x, training=True)

    np.testing.assert_array_equal(tf.function(call)(tf.constant(3)), call(3))


def test_dropout_sets_a_share_to_0_and_keeps_the_expectation():
    with dropout_seed(seed(0)):
        y = Dropout(0.1)(tf.ones([1000, 100]), training=True).numpy()
    assert np.mean(y == 0) == pytest.approx(0.1, abs=0.004)
    np.testing.assert_allclose(y[y != 0], 1 / 0.9, rtol=1e-6)
    assert y.mean() == pytest.approx(1, abs=0.005)


def test_there_is_no_dropout_at_inference_or_at_rate_0():
    x = tf.ones([4, 50])
    with dropout_seed(seed(0)):
        np.testing.assert_array_equal(Dropout(0.5)(x), x)
        np.testing.assert_array_equal(Dropout(0.0)(x, training=True), x)


def test_outside_a_seed_every_call_drops_something_else():
    layer, x = Dropout(0.5), tf.ones([4, 50])
    one, two = layer(x, training=True), layer(x, training=True)
    assert 0 < np.mean(one == 0) < 1
    assert not np.array_equal(one, two)
    graph = tf.function(lambda: layer(x, training=True))
    assert not np.array_equal(graph(), graph())


def test_a_seed_ends_with_its_scope_even_after_an_error():
    layer, x = Dropout(0.5), tf.ones([4, 50])
    with pytest.raises(RuntimeError), dropout_seed(seed(0)):
        raise RuntimeError
    assert not np.array_equal(layer(x, training=True), layer(x, training=True))


def test_the_gradient_of_dropout_has_the_mask_of_its_output():
    x, layer = tf.ones([4, 50]), Dropout(0.5)

    def call(x):
        with dropout_seed(seed(0)):
            return layer(x, training=True)

    (slope,) = gradients(call, [x], tf.ones([4, 50]))
    np.testing.assert_array_equal(slope, call(x))


# Embeddings


@pytest.fixture(scope="module")
def embeddings():
    layer = Embeddings(
        vocab_size=6,
        embedding_size=4,
        max_position_embeddings=3,
        type_vocab_size=2,
        dropout=0.0,
    )
    layer.build()
    return layer


def test_embeddings_add_word_segment_and_position_and_normalise(embeddings):
    ours = embeddings(tf.constant([[5, 1]]), tf.constant([[0, 1]]))
    word, segment, position = (
        np.array(t)
        for t in (
            embeddings.word_embeddings,
            embeddings.token_type_embeddings,
            embeddings.position_embeddings,
        )
    )
    added = word[[5, 1]] + segment[[0, 1]] + position[:2]
    np.testing.assert_allclose(ours[0], plain_layer_norm(added, 1.0, 0.0), rtol=1e-4)


def test_no_segments_means_segment_0(embeddings):
    ids = tf.constant([[5, 1, 2]])
    np.testing.assert_array_equal(embeddings(ids), embeddings(ids, tf.zeros_like(ids)))


def test_an_input_longer_than_the_position_table_is_refused(embeddings):
    with pytest.raises(ValueError, match=r"length 4 is longer .*\(3\)"):
        embeddings(tf.zeros([1, 4], tf.int32))


# Heads


def test_the_masked_lm_head_scores_against_the_embedding_table_itself(embeddings):
    head = MaskedLMHead(embeddings=embeddings, activation=gelu)
    head.build((None, 8))
    head.output_bias.assign([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    x = normal(2, 8).astype(np.float32)
    dense = x @ np.array(head.dense.kernel)
    hidden = plain_layer_norm(dense * special.ndtr(dense), 1.0, 0.0)
    wanted = hidden @ np.array(embeddings.word_embeddings).T + np.arange(1, 7)
    np.testing.assert_allclose(head(x), wanted, rtol=1e-4, atol=1e-4)
    assert {v.path for v in head.trainable_variables} >= {
        embeddings.word_embeddings.path
    }


def test_the_replaced_token_head_has_one_number_a_token_without_layer_norm():
    head = ReplacedTokenHead(hidden_size=4, activation=gelu)
    head.build((None, None, 4))
    x = normal(2, 3, 4).astype(np.float32)
    dense = x @ np.array(head.dense.kernel)
    wanted = dense * special.ndtr(dense) @ np.array(head.output_dense.kernel)
    np.testing.assert_allclose(head(x), wanted[..., 0], rtol=1e-4, atol=1e-6)
    assert len(head.weights) == 4


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
def test_logits_are_float32_under_every_precision(policy):
    embeddings = Embeddings(
        vocab_size=6,
        embedding_size=4,
        max_position_embeddings=3,
        type_vocab_size=2,
        dropout=0.0,
        dtype=policy,
    )
    embeddings.build()
    head = MaskedLMHead(embeddings=embeddings, activation=gelu, dtype=policy)
    verdict = ReplacedTokenHead(hidden_size=4, activation=gelu, dtype=policy)
    x = embeddings(tf.constant([[5, 1]]))
    assert x.dtype == tf.as_dtype(policy.removeprefix("mixed_"))
    assert head(x).dtype == verdict(x).dtype == tf.float32
