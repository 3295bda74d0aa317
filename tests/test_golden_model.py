"""Every layer, loss, metric, gradient and update equals the original's."""

import numpy as np
import pytest
import recorded
import tensorflow as tf
from conftest import golden_dir

from electra_tf.pretraining import corruption, masking, metrics
from electra_tf.training import step
from electra_tf.training.optimizer import AdamWeightDecay, weight_decay_rows
from electra_tf.training.schedule import WarmupDecay

pytestmark = pytest.mark.golden

VARIANTS = recorded.variants(golden_dir())
BUILT = [v for v, r in VARIANTS.items() if not r["config"]["electric_objective"]]


@pytest.fixture(scope="module")
def inputs(golden):
    return dict(np.load(golden / "model_inputs.npz"))


def forward(golden, inputs, variant):
    """Our outputs, losses, total and gradients on the recorded batch and draws."""
    objective = recorded.objective_of(golden, variant)
    batch = recorded.batch_of(inputs)
    options = {
        "masked_inputs": recorded.masked_inputs_of(batch, inputs, "masked/"),
        "return_all": True,
    }
    if VARIANTS[variant]["config"]["electra_objective"]:
        options["sampled_ids"] = tf.constant(inputs["draw/sampled_tokids"])
    with tf.GradientTape() as tape:
        outputs = objective.outputs(batch, **options)
        losses = objective.losses_of(outputs)
        total = step.total_loss(
            losses, objective.loss_weights, step.global_weights(losses)
        )
    variables = recorded.by_tf1_name(objective)
    gradients = tape.gradient(total, {k: v.value for k, v in variables.items()})
    return objective, outputs, losses, total, gradients


def ours_by_recorded_name(outputs, losses, total):
    ratio = {k: t / (w + 1e-6) for k, (t, w) in losses.items()}
    found = {
        "total_loss": total,
        "mlm_logits": outputs["mlm_logits"],
        "mlm_loss": ratio["mlm"],
        "mlm_per_example_loss": outputs["mlm_per_slot_loss"],
        "mlm_preds": outputs["mlm_predictions"],
    }
    if "rtd" in losses:
        mask = tf.cast(outputs["masked_inputs"].input_mask, tf.float32)
        found |= {
            "disc_logits": outputs["disc_logits"],
            "disc_per_example_loss": tf.reduce_sum(outputs["disc_per_token_loss"], -1)
            / (tf.reduce_sum(mask, -1) + 1e-6),
            "disc_labels": outputs["is_replaced"],
            "disc_preds": outputs["disc_predictions"],
            "disc_loss": ratio["rtd"],
        }
    for tower in ("generator", "discriminator"):
        hidden = outputs.get(tower) or {}
        if hidden:
            found |= {
                f"{tower}/embedding_output": hidden["embedding_output"],
                f"{tower}/encoder_input": hidden["encoder_input"],
                f"{tower}/layer_outputs": tf.stack(hidden["hidden_states"]),
            }
            for i, probs in enumerate(hidden["attentions"]):
                found[f"{tower}/attention_probs_layer{i}"] = probs
    return found


@pytest.mark.parametrize("variant", BUILT)
def test_outputs_losses_and_gradients_equal_the_recorded_ones(golden, inputs, variant):
    record, values = VARIANTS[variant], recorded.own_arrays(golden, variant)
    _, outputs, losses, total, gradients = forward(golden, inputs, variant)
    ours = ours_by_recorded_name(outputs, losses, total)
    for name in [k[4:] for k in values if k.startswith("out/")]:
        want = values[f"out/{name}"]
        got = np.asarray(ours[name])
        if name.startswith(("generator/att", "discriminator/att")):
            got = got[: want.shape[0]]  # only the first rows were recorded
        if want.dtype.kind == "i":
            np.testing.assert_array_equal(got, want, err_msg=name)
        else:
            recorded.assert_close(got, want, variant, name)
    grads = [k for k in values if k.startswith("grad/")]
    assert grads and {k[5:] for k in grads} <= set(gradients)
    for name, gradient in gradients.items():
        gradient = tf.convert_to_tensor(gradient)
        if f"grad/{name}" in values:  # the largest were left out of some variants
            recorded.assert_close(gradient, values[f"grad/{name}"], variant, name)
        norm = record["grad_l2_norm"][name]
        assert np.linalg.norm(gradient) == pytest.approx(norm, rel=1e-4, abs=1e-6), name
    for name in ("total_loss", "mlm_loss", "disc_loss"):
        if record[name] is not None:
            recorded.assert_close(ours[name], record[name], variant, name)
    norm = tf.linalg.global_norm([tf.convert_to_tensor(g) for g in gradients.values()])
    assert float(norm) == pytest.approx(record["grad_global_norm"], rel=1e-5)


@pytest.mark.parametrize("variant", BUILT)
def test_every_variable_has_the_recorded_name_and_shape(golden, variant):
    objective = recorded.objective_of(golden, variant)
    ours = {k: list(v.shape) for k, v in recorded.by_tf1_name(objective).items()}
    assert ours == {name: shape for name, shape in VARIANTS[variant]["variables"]}


@pytest.mark.parametrize("variant", BUILT)
def test_metrics_equal_the_recorded_ones(golden, inputs, variant):
    objective, outputs, *_ = forward(golden, inputs, variant)
    values = metrics.results(objective.metrics_of(outputs))
    for name, want in VARIANTS[variant]["eval_metrics"].items():
        assert values[name] == pytest.approx(want, rel=1e-5, abs=1e-6), name


def test_metrics_add_up_over_batches_as_recorded(golden):
    data = dict(np.load(golden / "eval_metrics.npz"))
    after = recorded.read_json(golden, "eval_metrics.json")["after_batch"]
    objective, sums = recorded.objective_of(golden, recorded.BASE), {}
    for i, want in enumerate(after):
        batch = recorded.batch_of(data, f"batch{i}/")
        outputs = objective.outputs(
            batch,
            masked_inputs=recorded.masked_inputs_of(batch, data, f"batch{i}/masked/"),
            sampled_ids=tf.constant(data[f"batch{i}/sampled_tokids"]),
        )
        np.testing.assert_array_equal(
            outputs["is_replaced"], data[f"batch{i}/eval/disc_labels"]
        )
        np.testing.assert_array_equal(
            outputs["disc_predictions"], data[f"batch{i}/eval/disc_preds"]
        )
        for name, pair in objective.metrics_of(outputs).items():
            old = sums.get(name, (0.0, 0.0))
            sums[name] = (old[0] + pair[0].numpy(), old[1] + pair[1].numpy())
        values = metrics.results(sums)
        for name, value in want.items():
            assert values[name] == pytest.approx(value, rel=1e-5, abs=1e-6), name


def test_the_recorded_draws_give_the_recorded_masked_inputs(golden, inputs):
    vocabulary = recorded.vocabulary_of(golden)
    config = recorded.config_of(VARIANTS[recorded.BASE])
    batch = recorded.batch_of(inputs)
    count = masking.num_to_predict(
        batch["input_mask"], config.mask_prob, config.max_predictions_per_seq
    )
    used = tf.range(config.max_predictions_per_seq) < count[:, None]
    weights = tf.cast(used, tf.float32)
    positions = tf.where(used, inputs["draw/categorical_draws"], 0)
    allowed = masking.candidates(
        batch["input_ids"],
        batch["input_mask"],
        (vocabulary.cls_id, vocabulary.sep_id, vocabulary.mask_id),
    )
    assert np.all(tf.gather(allowed, positions, batch_dims=1).numpy()[used.numpy()])
    masked_ids = masking.write_mask(
        tf.constant(batch["input_ids"]),
        positions,
        weights,
        inputs["draw/uniform_draws"],
        vocabulary.mask_id,
    )
    batch = {k: tf.constant(v) for k, v in batch.items()}
    ours = masking.gather_masked(batch, positions, weights, masked_ids)
    want = recorded.masked_inputs_of(batch, inputs, "masked/")
    for name in ours._fields:
        np.testing.assert_array_equal(getattr(ours, name), getattr(want, name), name)


def test_num_to_predict_equals_the_recorded_tables(golden):
    for row in recorded.read_json(golden, "masking_stats.json")["num_to_predict_table"]:
        length = row["max_seq_length"]
        masks = tf.sequence_mask(tf.range(len(row["num_to_predict"])), length)
        ours = masking.num_to_predict(
            tf.cast(masks, tf.int32), row["mask_prob"], row["max_predictions_per_seq"]
        )
        np.testing.assert_array_equal(ours, row["num_to_predict"])


def test_scatter_update_equals_the_recorded_cases(golden):
    stats = recorded.read_json(golden, "masking_stats.json")
    for case in stats["scatter_update_cases"]:
        updated, mask = corruption.scatter_update(
            *(tf.constant(case[k]) for k in ("sequence", "updates", "positions"))
        )
        np.testing.assert_array_equal(updated, case["updated"])
        np.testing.assert_array_equal(mask, case["mask"])


def test_the_recorded_noise_gives_the_recorded_samples(golden):
    sampling = recorded.read_json(golden, "masking_stats.json")["sampling"]
    noise = tf.constant(sampling["fixed_noise"]["uniform"], tf.float32)
    logits = tf.constant(sampling["logits"], tf.float32)[None] + tf.zeros_like(noise)
    ours = corruption.sample_like_the_original(logits, noise)
    np.testing.assert_array_equal(ours, sampling["fixed_noise"]["sampled"])


def test_the_schedule_gives_the_recorded_learning_rates(golden):
    run = recorded.read_json(golden, "optimizer.json")["pretrain"]
    data = np.load(golden / "optimizer_pretrain.npz")
    schedule = schedule_of(run["hparams"])
    for i in range(run["n_steps_run"]):
        assert float(schedule(i)) == pytest.approx(
            float(data["post_increment/lr"][i]), rel=1e-6, abs=1e-10
        )
        assert float(schedule(i - 1)) == pytest.approx(
            float(data["lr"][i]), rel=1e-6, abs=1e-10
        )


def schedule_of(hparams):
    return WarmupDecay(
        hparams["learning_rate"],
        hparams["num_train_steps"],
        hparams["warmup_steps"],
        hparams["lr_decay_power"],
    )


@pytest.mark.parametrize("prefix", ["", "post_increment/"])
def test_training_follows_the_recorded_trajectory(golden, inputs, prefix):
    run = recorded.read_json(golden, "optimizer.json")["pretrain"]
    data = dict(np.load(golden / "optimizer_pretrain.npz"))
    floor = run["noise_floor_perturb_1e-7"]
    objective = recorded.objective_of(golden, recorded.BASE)
    variables = recorded.by_tf1_name(objective)
    rates = tf.constant(data[f"{prefix}lr"])
    optimizer = AdamWeightDecay(
        0.0,
        decay_rows=weight_decay_rows(run["hparams"]["weight_decay_rate"]),
        beta_1=run["beta_1"],
        beta_2=run["beta_2"],
        epsilon=run["epsilon"],
    )
    optimizer.build(objective.trainable_variables)
    assert step.CLIP_NORM == run["clip_norm"]
    undecayed = {
        name
        for name, v in variables.items()
        if optimizer.decays[optimizer._get_variable_index(v)] == 0
    }
    assert undecayed == set(run["excluded_from_weight_decay"])
    update = replayed_step(objective, inputs)
    for i in range(run["n_steps_run"]):
        optimizer.learning_rate.assign(rates[i])
        loss, norm = update(optimizer)
        assert float(loss) == pytest.approx(
            float(data[f"{prefix}loss"][i]), abs=4 * floor["loss"]
        ), i
        assert float(norm) == pytest.approx(
            float(data[f"{prefix}grad_global_norm"][i]),
            abs=4 * floor["grad_global_norm"],
        ), i
        for name, variable in variables.items():
            if not prefix and f"step/{name}" in data:
                np.testing.assert_allclose(
                    variable, data[f"step/{name}"][i], rtol=0, atol=tolerance(floor)
                )
    slots = optimizer.slots(objective.trainable_variables)
    ours = dict(variables) | {
        recorded.to_tf1(recorded.below_root(k)): v for k, v in slots.items()
    }
    wanted = [k for k in data if k.startswith(f"{prefix}final/")]
    assert wanted
    for key in wanted:
        np.testing.assert_allclose(
            ours[key.removeprefix(f"{prefix}final/")],
            data[key],
            rtol=1e-4,
            atol=tolerance(floor),
            err_msg=key,
        )


def tolerance(floor):
    return 2 * floor["max_variable"]


def replayed_step(objective, inputs):
    """`train_step` on the recorded masks and samples, every step the same."""
    batch = {k: tf.constant(v) for k, v in recorded.batch_of(inputs).items()}
    masked = recorded.masked_inputs_of(batch, inputs, "masked/")
    masked = type(masked)(*(tf.constant(x) for x in masked))
    sampled_ids = tf.constant(inputs["draw/sampled_tokids"])

    class Replay:
        trainable_variables = objective.trainable_variables
        loss_weights = objective.loss_weights
        losses_of = objective.losses_of
        metrics_of = objective.metrics_of

        def outputs(self, batch, training, step):
            return objective.outputs(
                batch, masked_inputs=masked, sampled_ids=sampled_ids
            )

    replay = Replay()

    @tf.function
    def update(optimizer):
        report = step.train_step(replay, optimizer, batch)
        losses = report["losses"]
        loss = step.total_loss(losses, replay.loss_weights, step.global_weights(losses))
        return loss, report["grad_norm"]

    return update
