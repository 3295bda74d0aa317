"""What is trained: replaced token detection (ELECTRA) and masked LM (BERT).

    minimise  gen_weight * L_MLM(x, generator) + disc_weight * L_Disc(x, discriminator)

An objective is a `keras.Model` that maps a batch to `{name: (total, weight)}`. Variants
are points on four axes (generator, sharing of embeddings, head, loss positions); which
`Embeddings` object the two encoders are given is the whole of sharing.
"""

import keras
import tensorflow as tf

from electra_tf.encoder import build_embeddings, build_encoder
from electra_tf.errors import InputError
from electra_tf.layers.activations import ACTIVATIONS
from electra_tf.layers.dropout import dropout_seed, fold_in
from electra_tf.layers.heads import MaskedLMHead, ReplacedTokenHead
from electra_tf.pretraining import (
    corruption,
    losses,
    masking,
    metrics,
    randomness,
)
from electra_tf.pretraining.discriminator import Discriminator
from electra_tf.pretraining.generators import MaskedLMGenerator, UniformGenerator
from electra_tf.training.step import eval_step, scalars, train_step


class Objective(keras.Model):
    """What all objectives share: masking, seeds, and one step of training.

    Args:
        parts: (layer, shape) of what holds weights, in the order of building.
            Whoever builds a shared part first names it, so embeddings come first.
        masking_settings: keyword arguments of `masking.mask`
        loss_weights: {name: float}
    """

    def __init__(self, *, parts, masking_settings, loss_weights, name="pretraining"):
        super().__init__(name=name)
        self.parts = parts
        self.masking_settings = masking_settings
        self.loss_weights = loss_weights

    def build(self, input_shape=None):
        for part, shape in self.parts:
            if not part.built:
                part.build(shape)
        self.built = True

    def compile(self, optimizer, **kwargs):
        # Under mixed_float16 Keras would wrap the optimizer in one that divides the
        # gradients by a scale that `train_step` never multiplies the loss with.
        super().compile(optimizer, auto_scale_loss=False, **kwargs)

    def mask(self, batch, step):
        """Masks a batch as a function of (seed, step, global row)."""
        return masking.mask(
            batch, global_rows(batch), step=step, **self.masking_settings
        )

    def dropout_seed(self, step):
        """A function of (seed, step, replica); each Dropout adds its own place."""
        context = tf.distribute.get_replica_context()
        replica = context.replica_id_in_sync_group if context else 0
        seed = tf.stack([self.masking_settings["seed"], tf.cast(step, tf.int32)])
        return fold_in(tf.cast(seed, tf.int32), replica)

    def call(self, batch, training=False, step=0):
        return self.losses_of(self.outputs(batch, training=training, step=step))

    def train_step(self, batch):
        """One update; what `fit` runs, and what the loop runs on every replica."""
        return scalars(self, train_step(self, self.optimizer, batch))

    def test_step(self, batch):
        return scalars(self, eval_step(self, batch))


class MaskedLM(Objective):
    """BERT's objective without next-sentence prediction (paper, section 3.1)."""

    def __init__(self, *, generator, **kwargs):
        super().__init__(**kwargs)
        self.generator = generator

    @property
    def encoder(self):
        """The network that we keep."""
        return self.generator.encoder

    def outputs(
        self, batch, *, step=0, training=False, masked_inputs=None, return_all=False
    ):
        """Everything that losses, metrics and inspection need, by name."""
        if masked_inputs is None:
            masked_inputs = self.mask(batch, step)
        with dropout_seed(fold_in(self.dropout_seed(step), 0)):
            logits = self.generator(
                masked_inputs, training=training, return_all=return_all
            )
        logits, hidden = logits if return_all else (logits, {})
        _, per_slot = losses.masked_lm(
            logits, masked_inputs.masked_lm_ids, masked_inputs.masked_lm_weights
        )
        return {
            "masked_inputs": masked_inputs,
            "mlm_logits": logits,
            "mlm_predictions": tf.argmax(logits, -1, output_type=tf.int32),
            "mlm_per_slot_loss": per_slot,
            "generator": hidden,
        }

    def losses_of(self, outputs):
        weights = outputs["masked_inputs"].masked_lm_weights
        total = tf.reduce_sum(outputs["mlm_per_slot_loss"] * weights)
        return {"mlm": (total, tf.reduce_sum(weights))}

    def metrics_of(self, outputs):
        return metrics.masked_lm_metrics(outputs)


class Electra(MaskedLM):
    """Replaced token detection (paper, section 2).

    Args:
        temperature: of the softmax that replacements are sampled from
        disallow_correct: never sample the original token
        like_the_original: repeated positions get the mean of their samples, and
            padding counts in `disc_auc`
    """

    def __init__(
        self,
        *,
        discriminator,
        temperature=1.0,
        disallow_correct=False,
        like_the_original=False,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.discriminator = discriminator
        self.temperature = temperature
        self.disallow_correct = disallow_correct
        self.like_the_original = like_the_original

    @property
    def encoder(self):
        return self.discriminator.encoder

    def sample(self, logits, masked_inputs, rows, step):
        """Draws a replacement for every chosen position."""
        count, vocab_size = logits.shape[1:]
        sample, width = corruption.sample, 2
        if self.like_the_original:
            sample, width = corruption.sample_like_the_original, vocab_size
        draws = randomness.uniform(
            self.masking_settings["seed"],
            step,
            randomness.SAMPLED_IDS,
            rows,
            count * width,
        )
        return sample(
            logits,
            tf.reshape(draws, [-1, count, width]),
            temperature=self.temperature,
            disallowed_ids=(
                masked_inputs.masked_lm_ids if self.disallow_correct else None
            ),
        )

    def outputs(
        self,
        batch,
        *,
        step=0,
        training=False,
        masked_inputs=None,
        sampled_ids=None,
        return_all=False,
    ):
        outputs = super().outputs(
            batch,
            step=step,
            training=training,
            masked_inputs=masked_inputs,
            return_all=return_all,
        )
        masked = outputs["masked_inputs"]
        if sampled_ids is None:
            sampled_ids = self.sample(
                outputs["mlm_logits"], masked, global_rows(batch), step
            )
        corrupt = corruption.corrupt
        if self.like_the_original:
            corrupt = corruption.corrupt_like_the_original
        corrupted_ids, is_replaced = corrupt(
            masked.input_ids,
            masked.masked_lm_positions,
            masked.masked_lm_weights,
            sampled_ids,
        )
        with dropout_seed(fold_in(self.dropout_seed(step), 1)):
            logits = self.discriminator(
                corrupted_ids,
                masked.input_mask,
                masked.segment_ids,
                training=training,
                return_all=return_all,
            )
        logits, hidden = logits if return_all else (logits, {})
        _, per_token = losses.replaced_token_detection(
            logits, is_replaced, masked.input_mask
        )
        return outputs | {
            "sampled_ids": sampled_ids,
            "corrupted_ids": corrupted_ids,
            "is_replaced": is_replaced,
            "disc_logits": logits,
            "disc_predictions": tf.cast(logits > 0, tf.int32),
            "disc_per_token_loss": per_token,
            "discriminator": hidden,
        }

    def losses_of(self, outputs):
        weight = tf.cast(outputs["masked_inputs"].input_mask, tf.float32)
        total = tf.reduce_sum(outputs["disc_per_token_loss"])
        return super().losses_of(outputs) | {"rtd": (total, tf.reduce_sum(weight))}

    def metrics_of(self, outputs):
        return super().metrics_of(outputs) | metrics.discriminator_metrics(
            outputs, count_padding=self.like_the_original
        )


def global_rows(batch):
    """Each example's row in the global batch; a batch without `row` is all of it."""
    rows = batch.get("row")
    return tf.range(tf.shape(batch["input_ids"])[0]) if rows is None else rows


def build_objective(config, vocabulary):
    """Builds the objective that a PretrainingConfig describes, weights and all.

    Args:
        vocabulary: has `mask_id`, `cls_id`, `sep_id` (a `data.tokenization.Vocabulary`)
    """
    if config.electric_objective or config.two_tower_generator:
        raise InputError(
            "electric_objective and two_tower_generator are not available yet"
        )
    full = config.discriminator
    separate = config.electra_objective and config.untied_generator
    small = config.generator if separate else full
    embeddings = build_embeddings(full)
    parts = [(embeddings, None)]
    electra = build_encoder(full, embeddings, name="electra")
    parts.append((electra, None))
    options = dict(
        parts=parts,
        masking_settings=dict(
            seed=config.seed,
            mask_id=vocabulary.mask_id,
            special_ids=(vocabulary.cls_id, vocabulary.sep_id, vocabulary.mask_id),
            mask_prob=config.mask_prob,
            max_predictions_per_seq=config.max_predictions_per_seq,
            with_replacement=config.compat == "original",
        ),
        loss_weights={"mlm": config.gen_weight, "rtd": config.disc_weight},
    )
    if config.electra_objective and config.uniform_generator:
        options["generator"] = UniformGenerator(
            vocab_size=full.vocab_size, name="uniform_generator"
        )
    else:
        shared = embeddings
        if separate and config.untied_generator_embeddings:
            shared = build_embeddings(small, name="generator_embeddings")
            parts.append((shared, None))
        encoder = electra
        if separate:
            encoder = build_encoder(small, shared, name="generator")
            parts.append((encoder, None))
        head = MaskedLMHead(
            embeddings=shared,
            activation=ACTIVATIONS[small.hidden_act],
            initializer_range=small.initializer_range,
            name="generator_predictions",
        )
        parts.append((head, (None, None, small.hidden_size)))
        options["generator"] = MaskedLMGenerator(
            encoder=encoder, head=head, name="masked_lm_generator"
        )
    parts.append((options["generator"], None))
    if not config.electra_objective:
        objective = MaskedLM(**options)
    else:
        head = ReplacedTokenHead(
            hidden_size=full.hidden_size,
            activation=ACTIVATIONS[full.hidden_act],
            initializer_range=full.initializer_range,
            name="discriminator_predictions",
        )
        parts.append((head, (None, None, full.hidden_size)))
        discriminator = Discriminator(encoder=electra, head=head, name="discriminator")
        parts.append((discriminator, None))
        objective = Electra(
            discriminator=discriminator,
            temperature=config.temperature,
            disallow_correct=config.disallow_correct,
            like_the_original=config.compat == "original",
            **options,
        )
    objective.build()
    check_paths(objective)
    return objective


def check_paths(objective):
    """Every weight has a path of its own: checkpoints are keyed by path."""
    paths = [w.path for w in objective.weights]
    assert len(set(paths)) == len(paths), sorted(p for p in paths if paths.count(p) > 1)
