"""Every hyper-parameter: its name, its default and where a run's value came from.

Names and defaults are those of the original release (configure_pretraining.py); the
values of a size are those of the paper's Tables 6 and 7. A value is taken from the
first of: explicit flag, `--hparams`, debug mode, `--config`, the size, the default.
"""

import dataclasses
import os
import typing

from electra_tf.errors import InputError
from electra_tf.files import file_exists, read_json_object
from electra_tf.hparams import check_type, parse_hparams, read_toml, unknown_name
from electra_tf.presets import ARCHITECTURES, DEBUG, ORIGINAL_SIZES, SIZES

# What float32 can hold and a run can use.
SMALLEST, LARGEST = 1e-12, 1e6
# Larger than any network that was ever trained: a slip of the pen.
MOST = {
    "vocab_size": 10_000_000,
    "hidden_size": 65_536,
    "embedding_size": 65_536,
    "intermediate_size": 1_048_576,
    "num_hidden_layers": 1_000,
    "max_position_embeddings": 1_048_576,
}


@dataclasses.dataclass(frozen=True)
class EncoderConfig:
    """Shape of one Transformer encoder; the original's BertConfig."""

    vocab_size: int
    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    intermediate_size: int
    embedding_size: int
    hidden_act: str = "gelu"
    hidden_dropout_prob: float = 0.1
    attention_probs_dropout_prob: float = 0.1
    max_position_embeddings: int = 512
    type_vocab_size: int = 2
    initializer_range: float = 0.02

    def __post_init__(self):
        for name in (
            "vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads",
            "intermediate_size", "embedding_size", "max_position_embeddings",
            "type_vocab_size",
        ):  # fmt: skip
            value = getattr(self, name)
            if value < 1:
                raise InputError(f"{name} must be at least 1, got {value}")
            if value > MOST.get(name, value):
                raise InputError(f"{name} must be at most {MOST[name]}, got {value}")
        for name in ("hidden_dropout_prob", "attention_probs_dropout_prob"):
            value = getattr(self, name)
            if not 0 <= value < 1:
                raise InputError(f"{name} must lie in [0, 1), got {value}")
        if not 0 < self.initializer_range < float("inf"):
            raise InputError(
                f"initializer_range must be above 0, got {self.initializer_range}"
            )
        if self.hidden_size % self.num_attention_heads:
            raise InputError(
                f"hidden_size {self.hidden_size} is not a multiple of "
                f"num_attention_heads {self.num_attention_heads}"
            )
        if self.hidden_act not in ("gelu", "relu", "tanh", "linear"):
            raise InputError(
                "hidden_act must be gelu, relu, tanh or linear, got "
                f"{self.hidden_act!r}"
            )


@dataclasses.dataclass(frozen=True)
class PretrainingConfig:
    """Hyper-parameters of a pre-training run, frozen; see `load_config`."""

    model_name: str
    data_dir: str

    debug: bool = False  # a few quick steps, to see that everything works
    do_train: bool = True
    do_eval: bool = False

    # objective
    electra_objective: bool = True  # False: masked language modelling, as BERT
    electric_objective: bool = False
    gen_weight: float = 1.0  # weight of the generator's masked LM loss
    disc_weight: float = 50.0  # weight of the replaced token detection loss
    mask_prob: float = 0.15
    max_predictions_per_seq: int | None = None  # None: (mask_prob + .005) * length

    # optimization
    learning_rate: float = 5e-4
    lr_decay_power: float = 1.0
    weight_decay_rate: float = 0.01
    num_warmup_steps: int = 10000

    # training
    iterations_per_loop: int = 200  # steps between two log lines
    save_checkpoints_steps: int = 1000
    num_train_steps: int = 1_000_000
    num_eval_steps: int = 100  # only for debug and compat="original": see README
    keep_checkpoint_max: int = 5

    # model
    model_size: str = "small"  # tiny, small, small_plus_plus, base or large
    model_hparam_overrides: dict = dataclasses.field(default_factory=dict)
    embedding_size: int | None = None  # None: hidden_size
    vocab_size: int = 30522  # not given: the number of pieces in the vocabulary
    do_lower_case: bool = True  # must agree with the records' manifest

    # generator
    uniform_generator: bool = False
    two_tower_generator: bool = False
    untied_generator_embeddings: bool = False
    untied_generator: bool = True  # False: generator and discriminator are one encoder
    generator_layers: float = 1.0  # fraction of the discriminator's
    generator_hidden_size: float = 0.25  # fraction of the discriminator's
    disallow_correct: bool = False  # the generator may not sample the original token
    temperature: float = 1.0

    # batches, in examples over all replicas
    max_seq_length: int = 128
    train_batch_size: int = 128
    eval_batch_size: int = 128

    # TPU, as in the original
    use_tpu: bool = False
    num_tpu_cores: int = 1
    tpu_job_name: str | None = None
    tpu_name: str | None = None
    tpu_zone: str | None = None
    gcp_project: str | None = None

    # files; None: the usual place below data_dir
    pretrain_tfrecords: str | None = None
    eval_tfrecords: str | None = None
    vocab_file: str | None = None
    model_dir: str | None = None

    # ours
    seed: int = 1
    compat: str = "none"  # "original" restores every behaviour that we mend
    eval_every_steps: int = 10_000  # 0: only at the end
    shuffle_shards: int = 16  # shards held and shuffled together

    @property
    def discriminator(self):
        """EncoderConfig of the network we keep."""
        shape = dict(ARCHITECTURES[self.model_size], **self.model_hparam_overrides)
        embedding_size = self.embedding_size
        if embedding_size is None:
            embedding_size = shape["hidden_size"]
        return EncoderConfig(
            vocab_size=self.vocab_size, embedding_size=embedding_size, **shape
        )

    @property
    def generator(self):
        """EncoderConfig of the generator: a fraction of the discriminator's.

        As in the original, heads (one per 64 units) and the inner width (four times
        the hidden size) follow from the hidden size, and round() is half-to-even.
        """
        full = self.discriminator
        hidden_size = int(round(full.hidden_size * self.generator_hidden_size))
        return dataclasses.replace(
            full,
            hidden_size=hidden_size,
            num_hidden_layers=int(
                round(full.num_hidden_layers * self.generator_layers)
            ),
            intermediate_size=4 * hidden_size,
            num_attention_heads=max(1, hidden_size // 64),
            embedding_size=(
                hidden_size if self.untied_generator_embeddings else full.embedding_size
            ),
        )

    def to_dict(self):
        return dataclasses.asdict(self)


@dataclasses.dataclass(frozen=True)
class Resolved:
    """A config and, for each of its values, the place that it came from."""

    config: PretrainingConfig
    sources: dict

    def table(self):
        """Lines `name value source`, one hyper-parameter each."""
        values = self.config.to_dict()
        width = max(map(len, values))
        return "\n".join(
            f"  {name:{width}}  {value!r:24}  {self.sources[name]}"
            for name, value in values.items()
        )


def load_config(*, data_dir, model_name, config_file=None, hparams=None, flags=None):
    """Resolves a pre-training config.

    Args:
        config_file: path of a TOML file, or None
        hparams: dict, JSON text, or path of a JSON file, or None
        flags: dict of the hyper-parameters given as flags of their own
    Raises:
        InputError: unknown name, wrong type, or values that can't go together.
    """
    given = [
        ("flag", dict(flags or {})),
        ("--hparams", parse_hparams(hparams)),
        ("--config", read_toml(config_file) if config_file else {}),
    ]
    given = [(s, {k: check_value(k, v, s) for k, v in d.items()}) for s, d in given]
    explicit = {}
    for _, values in reversed(given):
        explicit.update(values)
    size = explicit.get("model_size", "small")
    compat = explicit.get("compat", "none")
    if compat not in ("none", "original"):
        raise InputError(f'compat must be "none" or "original", got {compat!r}')
    sizes = ORIGINAL_SIZES if compat == "original" else SIZES
    if size not in sizes:
        raise InputError(f"model_size must be one of {', '.join(sizes)}, got {size!r}")
    layers = [*given, (f"size {size}", sizes[size])]
    if explicit.get("debug"):
        layers.insert(2, ("debug", DEBUG))  # a config file is not asked
    if explicit.get("electric_objective"):
        layers.append(("electric_objective", {"two_tower_generator": True}))
    layers.append(("default", defaults()))
    values = {"data_dir": str(data_dir), "model_name": str(model_name)}
    sources = {"data_dir": "flag", "model_name": "flag"}
    for source, layer in layers:
        for name, value in layer.items():
            if name not in values:
                values[name], sources[name] = value, source
    complete(values, sources)
    return Resolved(validate(PretrainingConfig(**values)), sources)


def complete(values, sources):
    """Fills in what follows from other values, which are checked for it."""
    mask_prob, length = values["mask_prob"], values["max_seq_length"]
    if not 0 < mask_prob < 1:
        raise InputError(f"mask_prob must lie between 0 and 1, got {mask_prob}")
    if length < 4:
        raise InputError(f"max_seq_length must be at least 4, got {length}")
    if values["max_predictions_per_seq"] is None:
        values["max_predictions_per_seq"] = int((mask_prob + 0.005) * length)
        sources["max_predictions_per_seq"] = "mask_prob"
    data_dir = values["data_dir"]
    for name, place in {
        "pretrain_tfrecords": ("pretrain_tfrecords", "pretrain_data.tfrecord*"),
        "eval_tfrecords": ("eval_tfrecords", "pretrain_data.tfrecord*"),
        "vocab_file": ("vocab.txt",),
        "model_dir": ("models", values["model_name"]),
    }.items():
        if values[name] is None:
            values[name], sources[name] = os.path.join(data_dir, *place), "data_dir"


def validate(config):
    """Returns `config`, or says which of its values can't be."""
    name = config.model_name
    if name in ("", ".", "..") or any(c in name for c in "/\\\0"):
        raise InputError(f"model_name must be a plain folder name, got {name!r}")
    positive = (
        "num_train_steps", "train_batch_size", "eval_batch_size", "max_seq_length",
        "iterations_per_loop", "save_checkpoints_steps", "keep_checkpoint_max",
        "num_eval_steps", "max_predictions_per_seq", "shuffle_shards", "vocab_size",
    )  # fmt: skip
    for name in positive:
        check_range(config, name, 1, 2**31 - 1)
    for name in ("num_warmup_steps", "eval_every_steps", "seed"):
        check_range(config, name, 0, 2**31 - 1)
    for name in ("learning_rate", "temperature", "generator_layers",
                 "generator_hidden_size", "lr_decay_power"):  # fmt: skip
        if not getattr(config, name) > 0:
            raise InputError(f"{name} must be above 0, got {getattr(config, name)}")
        check_range(config, name, SMALLEST, LARGEST)
    check_range(config, "temperature", 1e-3, 1e3)
    for name in ("weight_decay_rate", "gen_weight", "disc_weight"):
        check_range(config, name, 0, LARGEST)
    if config.model_dir == "":
        raise InputError("model_dir must not be empty: leave it out, or name a folder")
    if config.use_tpu:
        raise InputError("use_tpu: the TPU strategy is not available yet")
    if config.electric_objective or config.two_tower_generator:
        raise InputError(
            "electric_objective and two_tower_generator are not available yet"
        )
    table = config.discriminator.max_position_embeddings
    if config.max_seq_length > table:
        raise InputError(
            f"max_seq_length {config.max_seq_length} is longer than the position table "
            f"({table}): set model_hparam_overrides.max_position_embeddings to "
            f"{config.max_seq_length} or more"
        )
    if config.max_predictions_per_seq > config.max_seq_length:
        raise InputError(
            f"max_predictions_per_seq {config.max_predictions_per_seq} is larger than "
            f"max_seq_length {config.max_seq_length}"
        )
    try:
        _ = config.generator  # its sizes must be possible too
    except InputError as error:
        raise InputError(
            f"generator (generator_hidden_size {config.generator_hidden_size}, "
            f"generator_layers {config.generator_layers}): {error}"
        ) from None
    return config


def check_range(config, name, least, most):
    value = getattr(config, name)
    if not value >= least:
        least = "0 or more" if least == 0 else f"at least {least}"
        raise InputError(f"{name} must be {least}, got {value}")
    if value > most:
        raise InputError(f"{name} must be at most {most}, got {value:.6g}")


def defaults():
    return {
        field.name: (
            field.default_factory()
            if field.default is dataclasses.MISSING
            else field.default
        )
        for field in dataclasses.fields(PretrainingConfig)
        if field.name not in ("model_name", "data_dir")
    }


def field_types(cls):
    return typing.get_type_hints(cls)


def check_value(name, value, source):
    known = set(field_types(PretrainingConfig)) - {"data_dir", "model_name"}
    if name in ("data_dir", "model_name"):
        raise InputError(f"{name} in {source}: give it as --{name}")
    if name not in known:
        raise InputError(unknown_name(name, known, source))
    value = check_type(name, value, field_types(PretrainingConfig)[name], source)
    return check_overrides(value, source) if name == "model_hparam_overrides" else value


def check_overrides(overrides, source):
    """Returns the values of `EncoderConfig` that a run replaces, as their types."""
    types_of = field_types(EncoderConfig)
    source = f"model_hparam_overrides in {source}"
    for name in ("vocab_size", "embedding_size"):
        if name in overrides:
            raise InputError(f"{name} in {source}: it is a hyper-parameter of its own")
        del types_of[name]
    for name in overrides:
        if name not in types_of:
            raise InputError(unknown_name(name, types_of, source))
    return {k: check_type(k, v, types_of[k], source) for k, v in overrides.items()}


CONFIG_NAME = "config.json"


def read_values(model_dir):
    """The values of a model folder's config.json, as a dict.

    Raises:
        InputError: not a model folder, or its config.json is damaged.
    """
    path = os.path.join(model_dir, CONFIG_NAME)
    if not file_exists(path):
        raise InputError(f"{model_dir} is not a model folder: it has no {CONFIG_NAME}")
    values = read_json_object(path)
    if "model_name" not in values or "model_size" not in values:
        raise InputError(
            f"{path} is not the config of a model of ours (it names no model_size)"
        )
    known = field_types(PretrainingConfig)
    for name, value in values.items():
        if name not in known:
            raise InputError(unknown_name(name, known, path))
        check_type(name, value, known[name], path)
    return values


def saved_config(model_dir):
    """The PretrainingConfig that a model folder was trained with."""
    values = read_values(model_dir)
    if values["model_size"] not in ARCHITECTURES:
        raise InputError(
            f"{model_dir}: {CONFIG_NAME} has the model_size {values['model_size']!r}, "
            f"known are {', '.join(ARCHITECTURES)}"
        )
    check_overrides(values.get("model_hparam_overrides", {}), CONFIG_NAME)
    return validate(PretrainingConfig(**values))
