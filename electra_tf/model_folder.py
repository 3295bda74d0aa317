"""The folder of a model: its config, its tokenizer, and what must agree with them."""

import dataclasses
import hashlib
import json
import os

from electra_tf.conversion.names import below_root
from electra_tf.data.tokenization import (
    TokenizerSettings,
    Vocabulary,
    load_tokenizer,
    save_tokenizer,
)
from electra_tf.errors import InputError
from electra_tf.training.checkpoint import finished

CONFIG = "config.json"

# Values that may change when a run is continued: they don't touch what is learned,
# save num_train_steps, whose change bends the schedule and is announced.
FREE = {
    "data_dir", "model_name", "model_dir", "pretrain_tfrecords", "eval_tfrecords",
    "vocab_file", "do_train", "do_eval", "iterations_per_loop",
    "save_checkpoints_steps", "keep_checkpoint_max", "eval_every_steps",
    "eval_batch_size", "num_eval_steps", "num_train_steps", "use_tpu",
    "num_tpu_cores", "tpu_job_name", "tpu_name", "tpu_zone", "gcp_project",
}  # fmt: skip


def variables_of(objective, optimizer=None):
    """{name: variable} of a checkpoint: weights and, if given, optimizer state."""
    found = {below_root(w.path): w for w in objective.weights}
    if optimizer is not None:
        slots = optimizer.slots(objective.trainable_variables)
        found |= {below_root(name): slot for name, slot in slots.items()}
        found["optimizer/iterations"] = optimizer.iterations
    return found


def state_of(config, vocabulary):
    """What a checkpoint says of itself besides its step."""
    return {"config": config.to_dict(), "vocabulary_sha256": vocabulary.sha256}


def fingerprint(config):
    """Hash of the values that a checkpoint depends on."""
    values = {k: v for k, v in config.to_dict().items() if k not in FREE}
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def agree(config, sources, manifest, say=print):
    """Brings config, vocabulary and the records' manifest into agreement.

    Returns: vocabulary, tokenizer settings, and the config with the vocabulary's size.
    Raises:
        InputError: two of them contradict each other; both are named.
    """
    vocabulary = Vocabulary.load(config.vocab_file)
    settings = TokenizerSettings(do_lower_case=config.do_lower_case)
    if manifest is not None:
        if manifest.vocabulary["sha256"] != vocabulary.sha256:
            raise InputError(
                f"the records were built with another vocabulary "
                f"({manifest.vocabulary['size']} pieces, sha256 "
                f"{manifest.vocabulary['sha256'][:12]}) than {config.vocab_file} "
                f"({vocabulary.size} pieces, sha256 {vocabulary.sha256[:12]})"
            )
        settings = TokenizerSettings.from_json_dict(manifest.tokenizer)
        if settings.do_lower_case != config.do_lower_case:
            if sources["do_lower_case"] != "default":
                raise InputError(
                    f"do_lower_case is {config.do_lower_case} in "
                    f"{sources['do_lower_case']}, but the records were built with "
                    f"{settings.do_lower_case}"
                )
            config = dataclasses.replace(config, do_lower_case=settings.do_lower_case)
    if config.vocab_size != vocabulary.size:
        if sources["vocab_size"] != "default" and config.vocab_size < vocabulary.size:
            raise InputError(
                f"vocab_size is {config.vocab_size} in {sources['vocab_size']}, but "
                f"{config.vocab_file} has {vocabulary.size} pieces"
            )
        if sources["vocab_size"] == "default":
            say(f"vocab_size: {vocabulary.size}, as in {config.vocab_file}")
            config = dataclasses.replace(config, vocab_size=vocabulary.size)
    return vocabulary, settings, config


def check(config, vocabulary, settings, say=print):
    """Refuses a model folder that another config or vocabulary has trained."""
    path = os.path.join(config.model_dir, CONFIG)
    if not os.path.exists(path):
        return
    saved = read_config(config.model_dir)
    now = config.to_dict()
    changed = [
        name
        for name in now
        if name not in FREE and saved.get(name, now[name]) != now[name]
    ]
    if changed:
        pairs = ", ".join(f"{n} {saved[n]!r} -> {now[n]!r}" for n in sorted(changed))
        raise InputError(
            f"{config.model_dir} was trained with another config ({pairs}): choose "
            "another --model_name, or the values that it was trained with"
        )
    before = load_tokenizer(config.model_dir)
    if before.vocabulary.sha256 != vocabulary.sha256:
        raise InputError(
            f"{config.model_dir} was trained with another vocabulary (sha256 "
            f"{before.vocabulary.sha256[:12]}) than {config.vocab_file} "
            f"({vocabulary.sha256[:12]}): choose another --model_name"
        )
    if before.settings.strips_accents != settings.strips_accents:
        raise InputError(
            f"{config.model_dir} was trained with other tokenizer settings "
            f"({before.settings}) than the records were built with ({settings})"
        )
    steps = saved.get("num_train_steps", config.num_train_steps)
    if steps != config.num_train_steps:
        say(
            f"num_train_steps {steps:,} -> {config.num_train_steps:,}: the learning "
            "rate follows the new schedule"
        )


def create(config, vocabulary, settings):
    """Writes config, vocabulary and tokenizer settings into the model folder."""
    os.makedirs(config.model_dir, exist_ok=True)
    save_tokenizer(config.model_dir, vocabulary, settings)
    write_text(
        os.path.join(config.model_dir, CONFIG), json.dumps(config.to_dict(), indent=1)
    )


def read_config(model_dir):
    """The values of a model's config.json, as a dict."""
    path = os.path.join(model_dir, CONFIG)
    try:
        with open(path, encoding="utf-8") as stream:
            values = json.loads(stream.read())
    except FileNotFoundError:
        raise InputError(
            f"{model_dir} is not a model folder: it has no {CONFIG}"
        ) from None
    except ValueError as error:
        raise InputError(f"{path} is damaged: {error}") from None
    if not isinstance(values, dict):
        raise InputError(f"{path} is damaged: not a JSON object")
    return values


def write_text(path, text):
    """Writes a file under a temporary name, then gives it its own."""
    with open(path + ".unfinished", "w", encoding="utf-8") as stream:
        stream.write(text)
    os.replace(path + ".unfinished", path)


__all__ = [
    "agree", "check", "create", "fingerprint", "finished", "read_config", "state_of",
    "variables_of", "write_text",
]  # fmt: skip
