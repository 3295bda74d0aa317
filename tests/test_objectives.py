"""Every objective: what it is made of, which loss trains what, and how it steps."""

import dataclasses
import types

import keras
import numpy as np
import pytest
import tensorflow as tf

from electra_tf.config import load_config
from electra_tf.errors import InputError
from electra_tf.pretraining import metrics
from electra_tf.pretraining.objectives import build_objective
from electra_tf.training import step
from electra_tf.training.optimizer import AdamWeightDecay
from electra_tf.training.schedule import WarmupDecay

PAD, UNK, CLS, SEP, MASK = range(5)
VOCABULARY = types.SimpleNamespace(mask_id=MASK, cls_id=CLS, sep_id=SEP)
V, E, H, FF, P, L, N = 50, 12, 16, 32, 16, 12, 3
GH = H // 2  # the generator's hidden size

EMBEDDINGS, ELECTRA, DISC = "embeddings", "electra", "discriminator_predictions"
GENERATOR, HEAD, OWN = "generator", "generator_predictions", "generator_embeddings"

# hyper-parameters, and which parts each loss trains
VARIANTS = {
    "default": (
        {},
        {"mlm": {EMBEDDINGS, GENERATOR, HEAD}, "rtd": {EMBEDDINGS, ELECTRA, DISC}},
    ),
    "no projection": (
        {"embedding_size": H},
        {"mlm": {EMBEDDINGS, GENERATOR, HEAD}, "rtd": {EMBEDDINGS, ELECTRA, DISC}},
    ),
    "untied embeddings": (
        {"untied_generator_embeddings": True},
        {"mlm": {OWN, GENERATOR, HEAD}, "rtd": {EMBEDDINGS, ELECTRA, DISC}},
    ),
    "tied generator": (
        {"untied_generator": False},
        {"mlm": {EMBEDDINGS, ELECTRA, HEAD}, "rtd": {EMBEDDINGS, ELECTRA, DISC}},
    ),
    "uniform generator": (
        {"uniform_generator": True},
        {"mlm": set(), "rtd": {EMBEDDINGS, ELECTRA, DISC}},
    ),
    "MLM only": (
        {"electra_objective": False},
        {"mlm": {EMBEDDINGS, ELECTRA, HEAD}},
    ),
}


def config_of(*, dropout=0.0, **hparams):
    shape = dict(
        hidden_size=H,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=FF,
        max_position_embeddings=P,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
        initializer_range=0.02,
    )
    values = dict(
        model_size="tiny",
        model_hparam_overrides=shape,
        embedding_size=E,
        vocab_size=V,
        max_seq_length=L,
        max_predictions_per_seq=N,
        mask_prob=0.25,
    )
    return load_config(
        data_dir="data", model_name="test", hparams=values | hparams
    ).config


def build(config):
    keras.utils.set_random_seed(1)
    return build_objective(config, VOCABULARY)


def batch_of(rows=4, seed=0):
    """Rows of full length, and of one token of padding less each."""
    ids = np.random.default_rng(seed).integers(5, V, (rows, L)).astype(np.int32)
    lengths = L - np.arange(rows) % 4
    ids[:, 0] = CLS
    ids[np.arange(rows), lengths - 1] = SEP
    mask = (np.arange(L) < lengths[:, None]).astype(np.int32)
    segments = (np.arange(L) > 6).astype(np.int32) * mask
    return {
        "input_ids": tf.constant(ids * mask),
        "input_mask": tf.constant(mask),
        "segment_ids": tf.constant(segments),
    }


@pytest.fixture(scope="module")
def objectives():
    return {name: build(config_of(**h)) for name, (h, _) in VARIANTS.items()}


@pytest.fixture
def electra(objectives):
    return objectives["default"]


each_variant = pytest.mark.parametrize("variant", VARIANTS)


def part_of(variable):
    return variable.path.split("/")[1]


@each_variant
def test_each_loss_trains_the_whole_of_its_parts_and_nothing_else(objectives, variant):
    objective, (_, trains) = objectives[variant], VARIANTS[variant]
    variables = objective.trainable_variables
    with tf.GradientTape(persistent=True) as tape:
        outputs = objective.outputs(batch_of(), training=True)
        losses = objective.losses_of(outputs)
        totals = {name: total for name, (total, _) in losses.items()}
    assert set(totals) == set(trains)
    for name, total in totals.items():
        found = tape.gradient(total, [v.value for v in variables])
        for variable, gradient in zip(variables, found):
            if part_of(variable) not in trains[name]:
                assert gradient is None, (name, variable.path)
            else:
                largest = np.abs(tf.convert_to_tensor(gradient)).max()
                assert largest > 0, (name, variable.path)
    assert {part_of(v) for v in variables} == set().union(*trains.values())


@each_variant
def test_every_weight_has_a_path_of_its_own_below_the_root(objectives, variant):
    paths = [w.path for w in objectives[variant].weights]
    assert len(set(paths)) == len(paths)
    assert all(path.startswith("pretraining/") for path in paths)


def count_embeddings(e):
    return e * (V + 2 + P) + 2 * e


def count_encoder(e, h, i):
    projection = (e + 1) * h if e != h else 0
    return projection + 4 * (h + 1) * h + (h + 1) * i + (i + 1) * h + 4 * h


def count_head(e, h):
    return (h + 1) * e + 2 * e + V


COUNT_DISCRIMINATOR = (
    count_embeddings(E) + count_encoder(E, H, FF) + (H + 1) * H + H + 1
)
COUNTS = {
    "default": COUNT_DISCRIMINATOR + count_encoder(E, GH, 4 * GH) + count_head(E, GH),
    "no projection": (
        count_embeddings(H)
        + count_encoder(H, H, FF)
        + (H + 1) * H
        + H
        + 1
        + count_encoder(H, GH, 4 * GH)
        + count_head(H, GH)
    ),
    "untied embeddings": (
        COUNT_DISCRIMINATOR
        + count_embeddings(GH)
        + count_encoder(GH, GH, 4 * GH)
        + count_head(GH, GH)
    ),
    "tied generator": COUNT_DISCRIMINATOR + count_head(E, H),
    "uniform generator": COUNT_DISCRIMINATOR,
    "MLM only": count_embeddings(E) + count_encoder(E, H, FF) + count_head(E, H),
}


@each_variant
def test_the_number_of_weights_is_that_of_the_formula(objectives, variant):
    assert objectives[variant].count_params() == COUNTS[variant]


def test_tied_embeddings_are_one_object_with_the_output_table(electra):
    shared = electra.discriminator.encoder.embeddings
    assert electra.generator.encoder.embeddings is shared
    assert electra.generator.head.embeddings is shared
    assert electra.encoder is electra.discriminator.encoder


def test_untied_embeddings_are_two_objects_and_a_tied_generator_is_one_encoder(
    objectives,
):
    untied = objectives["untied embeddings"]
    own = untied.generator.encoder.embeddings
    assert own is not untied.discriminator.encoder.embeddings
    assert untied.generator.head.embeddings is own
    tied = objectives["tied generator"]
    assert tied.generator.encoder is tied.discriminator.encoder
    assert objectives["MLM only"].encoder.name == "electra"


@each_variant
def test_a_new_network_knows_nothing(objectives, variant):
    objective = objectives[variant]
    losses = objective(batch_of())
    ratio = {name: float(total / weight) for name, (total, weight) in losses.items()}
    assert ratio.pop("mlm") == pytest.approx(np.log(V), rel=0.02)
    assert ratio.get("rtd", np.log(2)) == pytest.approx(np.log(2), rel=0.05)


def test_the_loss_is_gen_weight_times_mlm_plus_disc_weight_times_rtd():
    objective = build(config_of(gen_weight=2.0, disc_weight=7.0))
    losses = objective(batch_of())
    (mlm, slots), (rtd, tokens) = losses["mlm"], losses["rtd"]
    assert float(slots) == 3 + 3 + 2 + 2  # a quarter of each row, half to even
    assert float(tokens) == 12 + 11 + 10 + 9  # no padding
    loss = step.total_loss(losses, objective.loss_weights, step.global_weights(losses))
    assert float(loss) == pytest.approx(float(2 * mlm / 10 + 7 * rtd / 42), rel=1e-6)


def test_the_default_weights_are_1_and_50(electra):
    assert electra.loss_weights == {"mlm": 1.0, "rtd": 50.0}


def test_only_the_masked_positions_reach_the_vocabulary(electra):
    batch = batch_of()
    outputs = electra.outputs(batch, return_all=True)
    assert outputs["mlm_logits"].shape == (4, N, V)
    assert outputs["disc_logits"].shape == (4, L)
    hidden = outputs["generator"]["sequence_output"].numpy()
    positions = outputs["masked_inputs"].masked_lm_positions.numpy()
    chosen = np.take_along_axis(hidden, positions[:, :, None], 1)
    np.testing.assert_allclose(
        outputs["mlm_logits"], electra.generator.head(chosen), rtol=1e-4, atol=1e-6
    )


def test_the_discriminator_reads_the_unmasked_input_with_samples_in_it(electra):
    outputs = electra.outputs(batch_of(), step=3)
    masked = outputs["masked_inputs"]
    expected = masked.input_ids.numpy()
    for row, used in enumerate(masked.masked_lm_weights.numpy() > 0):
        positions = masked.masked_lm_positions[row][used]
        expected[row, positions] = outputs["sampled_ids"][row][used]
    np.testing.assert_array_equal(outputs["corrupted_ids"], expected)
    np.testing.assert_array_equal(
        outputs["is_replaced"], expected != masked.input_ids.numpy()
    )
    logits = electra.discriminator(
        outputs["corrupted_ids"], masked.input_mask, masked.segment_ids
    )
    np.testing.assert_allclose(outputs["disc_logits"], logits, rtol=1e-5, atol=1e-7)


def certain_logits(masked):
    """Logits of a generator that is sure of the original token."""
    return 20.0 * tf.one_hot(masked.masked_lm_ids, V)


@pytest.mark.parametrize("disallow", [False, True])
def test_disallow_correct_never_samples_the_original(electra, disallow):
    batch = batch_of(200)
    masked = electra.mask(batch, 0)
    electra.disallow_correct = disallow
    try:
        sampled = electra.sample(certain_logits(masked), masked, tf.range(200), 0)
    finally:
        electra.disallow_correct = False
    correct = np.mean(sampled.numpy() == masked.masked_lm_ids.numpy())
    assert correct == 0 if disallow else correct > 0.99


def test_the_options_of_sampling_come_from_the_config():
    objective = build(config_of(temperature=0.5, disallow_correct=True))
    assert objective.temperature == 0.5 and objective.disallow_correct
    outputs = objective.outputs(batch_of(100))
    masked = outputs["masked_inputs"]
    assert not np.any(outputs["sampled_ids"] == masked.masked_lm_ids)


def test_a_low_temperature_samples_the_most_likely_token(electra):
    batch = batch_of()
    masked = electra.mask(batch, 0)
    levels = np.tile(np.linspace(0, 5, V, dtype=np.float32), (4, N, 1))
    logits = tf.constant(np.random.default_rng(0).permuted(levels, axis=-1))
    electra.temperature = 1e-3
    try:
        sampled = electra.sample(logits, masked, tf.range(4), 0)
    finally:
        electra.temperature = 1.0
    np.testing.assert_array_equal(sampled, tf.argmax(logits, -1))


def test_a_uniform_generator_samples_the_whole_vocabulary_alike(objectives):
    outputs = objectives["uniform generator"].outputs(batch_of(1000))
    counts = np.bincount(outputs["sampled_ids"].numpy().ravel(), minlength=V)
    assert len(counts) == V
    assert np.abs(counts - 3000 / V).max() < 5 * (3000 / V) ** 0.5


def test_a_row_gets_the_same_samples_and_losses_however_the_batch_is_split(electra):
    batch = batch_of(6) | {"row": tf.range(6)}
    whole = electra.outputs(batch, step=5)
    parts = [
        electra.outputs({k: v[s] for k, v in batch.items()}, step=5)
        for s in (slice(0, 1), slice(1, 6))
    ]
    for name in ("sampled_ids", "corrupted_ids", "is_replaced"):
        joined = np.concatenate([part[name] for part in parts])
        np.testing.assert_array_equal(joined, whole[name])
    for name, pair in electra.losses_of(whole).items():
        added = np.sum([electra.losses_of(part)[name] for part in parts], axis=0)
        np.testing.assert_allclose(added, pair, rtol=1e-5)


def test_the_next_step_masks_and_samples_anew_and_the_same_step_repeats(electra):
    batch = batch_of()
    one, again, later = (electra.outputs(batch, step=s) for s in (5, 5, 6))
    np.testing.assert_array_equal(one["corrupted_ids"], again["corrupted_ids"])
    assert not np.array_equal(one["corrupted_ids"], later["corrupted_ids"])
    assert not np.array_equal(
        one["masked_inputs"].masked_input_ids, later["masked_inputs"].masked_input_ids
    )


def test_a_row_of_padding_adds_to_no_loss_and_no_metric(electra):
    batch = batch_of(3)
    filled = {k: tf.pad(v, [[0, 2], [0, 0]]) for k, v in batch.items()}
    one, two = electra.outputs(batch), electra.outputs(filled)
    for name, pair in electra.losses_of(one).items():
        np.testing.assert_allclose(electra.losses_of(two)[name], pair, rtol=1e-5)
    values = [metrics.results(electra.metrics_of(outputs)) for outputs in (one, two)]
    assert values[0] == pytest.approx(values[1], rel=1e-5)


def test_positions_repeat_only_like_the_original():
    def repeats(objective):
        found = 0
        for s in range(30):
            masked = objective.mask(batch_of(), s)
            for positions in masked.masked_lm_positions.numpy():
                found += len(set(positions)) < N
        return found

    original = config_of(compat="original", model_size="small")
    assert repeats(build(config_of())) == 0
    objective = build(original)
    assert repeats(objective) > 10
    assert np.isfinite(objective(batch_of())["rtd"][0])


def test_dropout_differs_between_the_two_networks_and_between_steps():
    objective = build(config_of(dropout=0.5))

    def dropped(network, at):
        outputs = objective.outputs(batch_of(), step=at, training=True, return_all=True)
        return outputs[network]["embedding_output"].numpy() == 0

    one = dropped("generator", 0)
    assert np.mean(one) == pytest.approx(0.5, abs=0.1)
    np.testing.assert_array_equal(one, dropped("generator", 0))
    assert np.mean(one != dropped("generator", 1)) > 0.3
    assert np.mean(one != dropped("discriminator", 0)) > 0.3


def test_the_two_electric_options_are_refused_at_the_door():
    for name in ("electric_objective", "two_tower_generator"):
        config = dataclasses.replace(config_of(), **{name: True})
        with pytest.raises(InputError, match=name):
            build_objective(config, VOCABULARY)


# Training


STEPS, DROPOUT_CONFIG = 3, dict(dropout=0.1)


def optimizer_of():
    return AdamWeightDecay(WarmupDecay(0.01, 10, 2))


def weights_of(objective):
    return {w.path: w.numpy() for w in objective.trainable_variables}


def dataset_of():
    parts = [batch_of(4, seed=s) for s in range(STEPS)]
    rows = {k: tf.concat([p[k] for p in parts], 0) for k in parts[0]}
    return tf.data.Dataset.from_tensor_slices(rows).batch(4)


@pytest.fixture(scope="module")
def looped():
    """Weights after three steps in a loop of one's own, and the reports."""
    objective, optimizer = build(config_of(**DROPOUT_CONFIG)), optimizer_of()
    optimizer.build(objective.trainable_variables)
    before = weights_of(objective)

    @tf.function
    def update(batch):
        report = step.train_step(objective, optimizer, batch)
        return step.scalars(objective, report)

    reports = [update(batch) for batch in dataset_of()]
    return before, weights_of(objective), reports


def test_fit_trains_as_a_loop_over_train_step_does(looped):
    before, after, reports = looped
    objective = build(config_of(**DROPOUT_CONFIG))
    for path, value in weights_of(objective).items():
        np.testing.assert_array_equal(value, before[path], path)
    objective.compile(optimizer=optimizer_of())
    history = objective.fit(dataset_of(), verbose=0).history
    for path, value in weights_of(objective).items():
        np.testing.assert_allclose(value, after[path], rtol=1e-4, atol=1e-6)
    assert history["loss"][0] == pytest.approx(float(reports[-1]["loss"]), rel=1e-4)


def test_training_moves_every_weight(looped):
    before, after, reports = looped
    stayed = [path for path in before if np.array_equal(before[path], after[path])]
    assert not stayed
    assert all(np.isfinite(v) for report in reports for v in report.values())


def test_a_step_in_a_graph_equals_the_eager_step(looped):
    before, _, reports = looped
    objective, optimizer = build(config_of(**DROPOUT_CONFIG)), optimizer_of()
    first = next(iter(dataset_of()))
    report = step.train_step(objective, optimizer, first)
    for name, value in step.scalars(objective, report).items():
        assert float(value) == pytest.approx(float(reports[0][name]), rel=1e-4), name


def test_evaluate_gives_the_losses_of_a_batch_without_dropout(electra):
    electra.compile(optimizer=optimizer_of())
    found = electra.evaluate(dataset_of().take(1), verbose=0, return_dict=True)
    batch = next(iter(dataset_of()))
    wanted = step.scalars(electra, step.eval_step(electra, batch))
    assert found == pytest.approx({k: float(v) for k, v in wanted.items()}, rel=1e-4)


def test_half_precision_does_not_make_keras_unscale_what_was_never_scaled():
    keras.mixed_precision.set_global_policy("mixed_float16")
    try:
        objective, optimizer = build(config_of()), optimizer_of()
        objective.compile(optimizer=optimizer)
        losses = objective(batch_of(), training=True)
    finally:
        keras.mixed_precision.set_global_policy("float32")
    assert objective.optimizer is optimizer
    assert all(total.dtype == tf.float32 for total, _ in losses.values())
    assert all(w.dtype == "float32" for w in objective.trainable_variables)


@pytest.mark.slow
def test_a_train_step_compiles_with_xla(looped):
    _, _, reports = looped
    objective, optimizer = build(config_of(**DROPOUT_CONFIG)), optimizer_of()
    optimizer.build(objective.trainable_variables)

    @tf.function(jit_compile=True)
    def update(batch):
        return step.scalars(objective, step.train_step(objective, optimizer, batch))

    found = update(next(iter(dataset_of())))
    assert np.isfinite(float(found["loss"]))
    assert float(found["loss"]) == pytest.approx(float(reports[0]["loss"]), rel=0.05)
