"""The folder of a model: its config, its tokenizer, and what must agree with them."""

import dataclasses
import json
import os

from electra_tf.config import CONFIG_NAME, read_values
from electra_tf.conversion.names import below_root
from electra_tf.data.tokenization import (
    TokenizerSettings,
    Vocabulary,
    load_tokenizer,
    save_tokenizer,
)
from electra_tf.errors import InputError
from electra_tf.files import file_exists, is_folder, write_text
from electra_tf.training.checkpoint import finished

CHECKPOINTS = "checkpoints"
# What a run that was killed before its config was written may have left.
OURS = {"logs", "results", CHECKPOINTS, "vocab.txt", "tokenizer.json"}

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


def agree(config, sources, manifests, say=print):
    """Brings config, vocabulary and the manifests of the records into agreement.

    Args:
        sources: {name: where the config's value came from}
        manifests: of the training and of the evaluation records, where there are any
    Returns: vocabulary, tokenizer settings, and the config with the vocabulary's size.
    Raises:
        InputError: two of them contradict each other; both are named.
    """
    vocabulary = Vocabulary.load(config.vocab_file)
    settings = TokenizerSettings(do_lower_case=config.do_lower_case)
    for manifest in reversed(manifests):  # the training records decide
        agree_on_vocabulary(config, manifest, vocabulary)
        settings = TokenizerSettings.from_json_dict(manifest.tokenizer)
        if settings.do_lower_case != config.do_lower_case:
            if sources["do_lower_case"] != "default":
                raise InputError(
                    f"do_lower_case is {config.do_lower_case} in "
                    f"{sources['do_lower_case']}, but the records were built with "
                    f"{settings.do_lower_case}"
                )
    if len({tuple(sorted(m.tokenizer.items())) for m in manifests}) > 1:
        raise InputError(
            "training and evaluation records were built with different tokenizer "
            f"settings: {manifests[0].tokenizer} and {manifests[1].tokenizer}"
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


def agree_on_vocabulary(config, manifest, vocabulary):
    if manifest.vocabulary["sha256"] != vocabulary.sha256:
        raise InputError(
            f"the records were built with another vocabulary "
            f"({manifest.vocabulary['size']} pieces, sha256 "
            f"{manifest.vocabulary['sha256'][:12]}) than {config.vocab_file} "
            f"({vocabulary.size} pieces, sha256 {vocabulary.sha256[:12]})"
        )


def check(config, vocabulary, settings, say=print):
    """Refuses a model folder that another config or vocabulary has trained.

    A folder without a checkpoint holds nothing that could be lost.
    """
    if not file_exists(config.model_dir):
        return
    checkpoints = os.path.join(config.model_dir, CHECKPOINTS)
    trained = finished(checkpoints) or finished(os.path.join(checkpoints, "best"))
    if not trained and not file_exists(os.path.join(config.model_dir, CONFIG_NAME)):
        refuse_strange_files(config.model_dir)
        return
    saved = read_values(config.model_dir)  # also says if it is no model of ours
    if not trained:
        return
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


def for_evaluation(config, sources):
    """The config to evaluate a model with: its own, save for what was asked for.

    Values that were given by hand stay, so that `check` can say where they differ.
    """
    if not file_exists(os.path.join(config.model_dir, CONFIG_NAME)):
        return config
    taken = {
        name: value
        for name, value in read_values(config.model_dir).items()
        if name not in FREE and sources[name] not in ("flag", "--hparams", "--config")
    }
    sources.update(dict.fromkeys(taken, "the model's config.json"))
    return dataclasses.replace(config, **taken)


def refuse_strange_files(model_dir):
    """A run writes only into a folder that is empty or a model's."""
    if not is_folder(model_dir):
        raise InputError(f"model_dir {model_dir} is a file: name a folder")
    strange = [] if "://" in model_dir else sorted(set(os.listdir(model_dir)) - OURS)
    if strange:
        raise InputError(
            f"model_dir {model_dir} holds files that are not a model's "
            f"({strange[0]!r}): name a new or empty folder"
        )


def check_state(config, vocabulary, state, path):
    """Refuses a checkpoint of another config or vocabulary than the run's."""
    saved, now = state.get("config", {}), config.to_dict()
    changed = [n for n in now if n not in FREE and n in saved and saved[n] != now[n]]
    if state.get("vocabulary_sha256", vocabulary.sha256) != vocabulary.sha256:
        changed.append("vocabulary")
    if changed:
        raise InputError(
            f"the checkpoint of step {state['step']} in {path} is of another model "
            f"(its {sorted(changed)[0]} differs): remove it, or restore the model's own"
        )


def create(config, vocabulary, settings):
    """Writes config, vocabulary and tokenizer settings into the model folder."""
    save_tokenizer(config.model_dir, vocabulary, settings)
    write_text(
        os.path.join(config.model_dir, CONFIG_NAME),
        json.dumps(config.to_dict(), indent=1),
    )
