"""What a run shows to people is right."""

import math

import numpy as np
import pytest
import tensorflow as tf

from electra_tf.config import load_config
from electra_tf.data.tokenization import Vocabulary
from electra_tf.pretraining import inspection
from electra_tf.pretraining.masking import MaskedInputs

VOCABULARY = Vocabulary(
    ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "chef", "cooked", "ate", "|"]
)


def config_of(**hparams):
    values = {"model_size": "tiny", "vocab_size": 1000} | hparams
    return load_config(data_dir="d", model_name="m", hparams=values).config


def test_the_expected_first_loss_is_that_of_knowing_nothing():
    assert inspection.expected_first_loss(config_of()) == pytest.approx(
        math.log(1000) + 50 * math.log(2)
    )
    assert inspection.expected_first_loss(
        config_of(electra_objective=False)
    ) == pytest.approx(math.log(1000))


@pytest.mark.parametrize("loss, warns", [(41.5, False), (43.0, False), (60.0, True)])
def test_a_first_loss_far_from_that_is_a_warning(loss, warns):
    text = inspection.first_loss_verdict(config_of(), loss)
    assert text.startswith("WARNING") == warns
    assert "expected near 41.57" in text


def outputs():
    """[CLS] the chef cooked [SEP]: "chef" was masked and sampled as "ate"."""
    ids = tf.constant([[2, 5, 6, 7, 3, 0]])
    masked = MaskedInputs(
        input_ids=ids,
        masked_input_ids=tf.constant([[2, 5, 4, 7, 3, 0]]),
        input_mask=tf.constant([[1, 1, 1, 1, 1, 0]]),
        segment_ids=tf.zeros_like(ids),
        masked_lm_positions=tf.constant([[2, 0]]),
        masked_lm_ids=tf.constant([[6, 0]]),
        masked_lm_weights=tf.constant([[1.0, 0.0]]),
    )
    return {
        "masked_inputs": masked,
        "mlm_predictions": tf.constant([[5, 5]]),
        "sampled_ids": tf.constant([[8, 9]]),
        "is_replaced": tf.constant([[0, 0, 1, 0, 0, 0]]),
        "disc_logits": tf.constant([[-3.0, 2.0, 3.0, -3.0, -3.0, 9.0]]),
    }


def test_the_page_shows_original_masked_sampled_and_verdict():
    lines = inspection.table(outputs(), 0, VOCABULARY)
    cells = [[c.strip() for c in line.strip("|").split("|")] for line in lines]
    assert cells[0] == ["original", "masked", "sampled", "p(replaced)", "verdict"]
    assert cells[2:] == [
        ["[CLS]", "", "", "0.047", ""],
        ["the", "", "", "0.881", "false alarm"],
        ["chef", "[MASK]", "ate", "0.953", "found"],
        ["cooked", "", "", "0.047", ""],
        ["[SEP]", "", "", "0.047", ""],
    ]


def test_a_masked_lm_page_shows_its_best_guess():
    values = outputs()
    del values["disc_logits"]
    lines = inspection.table(values, 0, VOCABULARY)
    assert "| chef | [MASK] | the |" in lines


def test_tokens_that_mean_something_in_markdown_are_escaped():
    assert inspection.token(VOCABULARY, 9) == "\\|"
    assert inspection.token(VOCABULARY, np.int32(5)) == "the"
    assert inspection.token(VOCABULARY, 77) == "#77"  # a vocabulary padded in size


def test_the_summary_puts_the_majority_baseline_beside_the_accuracy():
    text = inspection.summary(
        {
            "loss": 20.0,
            "disc_accuracy": 0.93,
            "disc_majority_accuracy": 0.9,
            "disc_precision": 0.7,
            "disc_recall": 0.4,
        }
    )
    assert "disc_accuracy 0.9300 (always answering the majority: 0.9000)" in text
