"""What a run shows to people: a page of verdicts, a summary line, a first check."""

import math

import tensorflow as tf

# How far the first loss may be from that of a network that knows nothing.
FIRST_LOSS_TOLERANCE = 0.15


def expected_first_loss(config):
    """ln V for the generator, ln 2 for the discriminator, weighted."""
    loss = config.gen_weight * math.log(config.vocab_size)
    if config.electra_objective:
        loss += config.disc_weight * math.log(2)
    return loss


def first_loss_verdict(config, loss):
    """A line that says whether a run from scratch starts where it should."""
    expected = expected_first_loss(config)
    formula = "ln V" + (" + 50 ln 2" if config.electra_objective else "")
    if config.electra_objective and config.disc_weight != 50:
        formula = f"ln V + {config.disc_weight:g} ln 2"
    text = f"loss at step 0: {loss:.2f} (expected near {expected:.2f} = {formula})"
    tolerance = FIRST_LOSS_TOLERANCE
    if config.discriminator.initializer_range > 0.02:
        # Larger weights have opinions before they have learned anything.
        text += "; looser where weights start wider than 0.02"
        tolerance *= 2
    if abs(loss - expected) > tolerance * expected:
        text = (
            f"WARNING: {text}: a network that knows nothing should start there; "
            "check the vocabulary, the records and the initial weights"
        )
    return text


def summary(values):
    """The evaluation in one line, the majority baseline beside the accuracy."""
    shown = [f"loss {values['loss']:.3f}"]
    for name in ("masked_lm_loss", "masked_lm_accuracy", "disc_loss", "disc_auc"):
        if name in values:
            shown.append(f"{name} {values[name]:.4f}")
    if "disc_accuracy" in values:
        shown.append(
            f"disc_accuracy {values['disc_accuracy']:.4f} "
            f"(always answering the majority: {values['disc_majority_accuracy']:.4f})"
        )
        for name in ("disc_precision", "disc_recall"):
            shown.append(f"{name} {values[name]:.4f}")
    return "  ".join(shown)


def page(objective, batch, vocabulary, rows=4):
    """A Markdown table per example: original, masked, sampled, verdict."""
    outputs = objective.outputs(batch, training=False)
    parts = []
    for row in range(min(rows, batch["input_ids"].shape[0])):
        lines = table(outputs, row, vocabulary)
        if lines:
            parts.append("\n".join(lines))
    return "\n\n".join(parts)


def table(outputs, row, vocabulary):
    """Markdown lines for one example, real tokens only."""
    masked = outputs["masked_inputs"]
    length = int(tf.reduce_sum(masked.input_mask[row]))
    has_verdict = "disc_logits" in outputs
    if not length:
        return []
    columns = ["original", "masked"]
    columns += ["sampled", "p(replaced)", "verdict"] if has_verdict else ["predicted"]
    lines = ["| " + " | ".join(columns) + " |", "|---" * len(columns) + "|"]
    slots = {
        int(p): i
        for i, (p, w) in enumerate(
            zip(masked.masked_lm_positions[row], masked.masked_lm_weights[row])
        )
        if w > 0
    }
    for position in range(length):
        original = token(vocabulary, masked.input_ids[row, position])
        shown = token(vocabulary, masked.masked_input_ids[row, position])
        cells = [original, shown if position in slots else ""]
        if has_verdict:
            cells += verdict(outputs, row, position, slots, vocabulary)
        else:
            guess = outputs["mlm_predictions"][row]
            cells.append(
                token(vocabulary, guess[slots[position]]) if position in slots else ""
            )
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def verdict(outputs, row, position, slots, vocabulary):
    """Cells: the sampled token, p(replaced), and whether the verdict is right."""
    probability = float(tf.sigmoid(outputs["disc_logits"][row, position]))
    replaced = bool(outputs["is_replaced"][row, position])
    sampled = ""
    if position in slots:
        sampled = token(vocabulary, outputs["sampled_ids"][row, slots[position]])
    said = probability > 0.5
    word = {
        (True, True): "found", (False, True): "missed",
        (True, False): "false alarm", (False, False): "",
    }[said, replaced]  # fmt: skip
    return [sampled, f"{probability:.3f}", word]


def token(vocabulary, token_id):
    token_id = int(token_id)
    piece = f"#{token_id}"
    if token_id < vocabulary.size:
        piece = vocabulary.tokens[token_id]
    return piece.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")
