"""Shows a discriminator at work: a sentence, its tokens, how replaced each looks."""

import numpy as np
import tensorflow as tf

from electra_tf.data.packing import pack
from electra_tf.data.pipeline import evaluation_dataset
from electra_tf.errors import InputError

MAX_TOKENS = 24  # of a sentence that a person reads in a terminal


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


def words_of(vocabulary):
    """Ids of the vocabulary's whole words: letters, three or more."""
    return [
        i
        for i, token in enumerate(vocabulary.tokens)
        if token.isalpha() and len(token) > 2
    ]


def swap_one(ids, words, vocabulary, generator):
    """Puts a random word in the place of a random word of `ids`.

    Returns: the new ids and the place; None where nothing can be swapped.
    """
    places = whole_words(ids, vocabulary)
    if not places or not words:
        return None
    place, word = int(generator.choice(places)), int(generator.choice(words))
    if word == ids[place]:
        return None
    return [*ids[:place], word, *ids[place + 1 :]], place


def swaps(objective, config, tokenizer, shards, *, count=100, seed=1):
    """Swaps one word in each of `count` held-out sentences and scores the result.

    Returns: list of (ids, index of the swap, original id, probabilities)
    """
    vocabulary, generator = tokenizer.vocabulary, np.random.default_rng(seed)
    words, results = words_of(vocabulary), []
    for sentence in held_out_sentences(shards, config, vocabulary, count):
        swapped = swap_one(sentence, words, vocabulary, generator)
        if swapped:
            ids, place = swapped
            probs = probabilities(objective, ids, vocabulary)
            results.append((ids, place, sentence[place], probs))
    return results


def right_and_wrong(results):
    """The clearest right and the clearest wrong verdict; None where there is none.

    Right: the swapped token, and no other, is called replaced (the widest gap of all
    such sentences). Wrong: the swapped token is called original.
    """
    right, wrong = [], []
    for result in results:
        _, place, _, probs = result
        others = np.delete(probs, place).max()
        if probs[place] > 0.5 > others:
            right.append((probs[place] - others, len(right), result))
        if probs[place] <= 0.5:
            wrong.append((probs[place], len(wrong), result))
    return (
        max(right)[-1] if right else None,
        min(wrong)[-1] if wrong else None,
    )


def summary(results):
    """How many swaps were found, beside how many real tokens were called replaced."""
    found = sum(probs[place] > 0.5 for _, place, _, probs in results)
    first = sum(probs[place] == probs.max() for _, place, _, probs in results)
    others = np.concatenate([np.delete(p, place) for _, place, _, p in results])
    return (
        f"{found} of {len(results)} swapped words called replaced, and "
        f"{int((others > 0.5).sum())} of {len(others)} untouched tokens; in {first} "
        "sentences the swapped word had the highest probability"
    )
