"""Shows a discriminator at work: a sentence, its tokens, how replaced each looks."""

import numpy as np
import tensorflow as tf

from electra_tf.data.packing import pack
from electra_tf.data.pipeline import evaluation_dataset
from electra_tf.errors import InputError

MAX_TOKENS = 40  # of a sentence that a person reads in a terminal


def probabilities(objective, ids, vocabulary):
    """The probability that each token was replaced, for one sequence of token ids."""
    features = pack(ids, [], len(ids) + 2, vocabulary.cls_id, vocabulary.sep_id)
    batch = {key: tf.constant([value], tf.int32) for key, value in features.items()}
    logits = objective.discriminator(
        batch["input_ids"], batch["input_mask"], batch["segment_ids"], training=False
    )
    return tf.sigmoid(logits)[0, 1:-1].numpy()


def show(tokenizer, ids, probs, swapped=None):
    """Lines of tokens and probabilities, the verdicts marked.

    Args:
        swapped: index of the token that was swapped, or None
    """
    lines = []
    for i, (token_id, probability) in enumerate(zip(ids, probs)):
        bar = "#" * int(round(20 * float(probability)))
        notes = []
        if i == swapped:
            notes.append("<- swapped")
        if probability > 0.5:
            notes.append("called replaced")
        token = tokenizer.vocabulary.tokens[token_id]
        lines.append(f"  {token:>16}  {probability:.3f}  {bar:<20} {' '.join(notes)}")
    return "\n".join(lines)


def check_length(ids, config):
    if not ids:
        raise InputError("the sentence is empty")
    if len(ids) + 2 > config.discriminator.max_position_embeddings:
        raise InputError(
            f"the sentence has {len(ids)} tokens, the model reads at most "
            f"{config.discriminator.max_position_embeddings - 2}"
        )


def whole_words(ids, vocabulary):
    """Indices of tokens that are words by themselves: letters, no ## piece after."""
    tokens = [vocabulary.tokens[i] for i in ids]
    return [
        i
        for i, token in enumerate(tokens)
        if token.isalpha()
        and len(token) > 2
        and not (i + 1 < len(tokens) and tokens[i + 1].startswith("##"))
    ]


def held_out_sentences(shards, config, vocabulary, count):
    """First segments of evaluation records, cut to what fits a screen."""
    found = []
    dataset = evaluation_dataset(
        shards, max_seq_length=config.max_seq_length, global_batch_size=16
    )
    for batch in dataset:
        ids, mask, segments = (
            batch[k].numpy() for k in ("input_ids", "input_mask", "segment_ids")
        )
        for row in range(len(ids)):
            real = ids[row][(mask[row] == 1) & (segments[row] == 0)]
            words = [int(i) for i in real[1:-1][:MAX_TOKENS]]
            if len(words) >= 12:
                found.append(words)
            if len(found) == count:
                return found
    return found


def swap_one(ids, pool, vocabulary, generator):
    """Puts a random word of `pool` in the place of a random word of `ids`."""
    places = whole_words(ids, vocabulary)
    if not places:
        return None
    place = int(generator.choice(places))
    word = int(generator.choice(pool))
    if word == ids[place]:
        return None
    return [*ids[:place], word, *ids[place + 1 :]], place


def swaps(objective, config, tokenizer, shards, *, count=64, seed=1):
    """Swaps one word in each of `count` held-out sentences and scores the result.

    Returns: list of (ids, index of the swap, original id, probabilities)
    """
    vocabulary, generator = tokenizer.vocabulary, np.random.default_rng(seed)
    sentences = held_out_sentences(shards, config, vocabulary, count)
    pool = [i for s in sentences for i in s]
    pool = [pool[i] for i in whole_words(pool, vocabulary)]
    results = []
    for sentence in sentences:
        swapped = swap_one(sentence, pool, vocabulary, generator) if pool else None
        if swapped:
            ids, place = swapped
            probs = probabilities(objective, ids, vocabulary)
            results.append((ids, place, sentence[place], probs))
    return results


def right_and_wrong(results):
    """The clearest found swap and the clearest missed one; None where there is none.

    A swap is found if its token has the highest probability of the sentence and more
    than one half.
    """
    found, missed = [], []
    for result in results:
        _, place, _, probs = result
        hit = probs[place] > 0.5 and probs[place] == probs.max()
        (found if hit else missed).append((float(probs[place]), result))
    best = max(found, key=lambda pair: pair[0])[1] if found else None
    worst = min(missed, key=lambda pair: pair[0])[1] if missed else None
    return best, worst, len(found)
