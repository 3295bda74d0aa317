"""Where a hyper-parameter comes from, and what can't be one."""

import dataclasses
import json
import pathlib

import pytest

from electra_tf.config import EncoderConfig, load_config, saved_config
from electra_tf.errors import InputError

CONFIGS = pathlib.Path(__file__).parent.parent / "configs"

# The paper's Table 6 (NUMBERS.md, 3.3); Small++ differs from small in three rows.
ROWS = (
    "num_hidden_layers", "hidden_size", "intermediate_size", "num_attention_heads",
    "embedding_size", "generator_hidden_size", "mask_prob", "max_seq_length",
    "learning_rate", "train_batch_size", "num_train_steps",
)  # fmt: skip
TABLE_6 = {
    "electra_small":
        (12, 256, 1024, 4, 128, 1 / 4, 0.15, 128, 5e-4, 128, 1_000_000),
    "electra_small_plus_plus":
        (12, 256, 1024, 4, 128, 1, 0.15, 512, 5e-4, 128, 4_000_000),
    "electra_base":
        (12, 768, 3072, 12, 768, 1 / 3, 0.15, 512, 2e-4, 256, 766_000),
    "electra_large":
        (24, 1024, 4096, 16, 1024, 1 / 4, 0.25, 512, 2e-4, 2048, 400_000),
}  # fmt: skip
OF_EVERY_SIZE = dict(
    num_warmup_steps=10_000, lr_decay_power=1, weight_decay_rate=0.01, disc_weight=50,
    gen_weight=1, hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.1,
)  # fmt: skip


def resolve(hparams=None, **options):
    return load_config(data_dir="data", model_name="m", hparams=hparams, **options)


def config(**hparams):
    return resolve(hparams).config


def error(hparams=None, **options):
    with pytest.raises(InputError) as caught:
        resolve(hparams, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def value_of(config, name):
    if name != "embedding_size" and hasattr(config, name):
        return getattr(config, name)
    return getattr(config.discriminator, name)


@pytest.fixture
def toml(tmp_path):
    def write(text):
        path = tmp_path / "run.toml"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return str(path)

    return write


# ---- the files in configs/


@pytest.mark.parametrize("name", TABLE_6)
def test_a_preset_is_a_column_of_the_papers_table_6(name):
    resolved = resolve(config_file=CONFIGS / f"{name}.toml").config
    wanted = dict(zip(ROWS, TABLE_6[name])) | OF_EVERY_SIZE
    assert {row: value_of(resolved, row) for row in wanted} == wanted


@pytest.mark.parametrize("name", [*TABLE_6, "tiny"])
def test_a_preset_says_what_its_model_size_alone_means(name):
    size = name.removeprefix("electra_")
    preset = resolve(config_file=CONFIGS / f"{name}.toml")
    extra = {"do_eval": True} if name == "tiny" else {}
    assert preset.config == config(model_size=size, **extra)
    # Everything that the size decides stands in the file for a reader to see.
    by_size = resolve({"model_size": size}).sources
    written = {n for n, source in preset.sources.items() if source == "--config"}
    assert {n for n, source in by_size.items() if source == f"size {size}"} <= written


def test_bert_small_is_electra_small_without_its_objective_and_longer():
    bert = resolve(config_file=CONFIGS / "bert_small.toml").config
    assert bert == config(electra_objective=False, num_train_steps=1_450_000)


def test_an_ablation_changes_what_its_name_says():
    def ablation(name):
        return resolve(config_file=CONFIGS / "ablations" / f"{name}.toml").config

    same_size = dict(
        model_size="base", generator_hidden_size=1.0, num_train_steps=500_000
    )
    assert ablation("uniform_generator") == config(uniform_generator=True)
    assert ablation("untied_embeddings") == config(
        untied_generator_embeddings=True, **same_size
    )
    assert ablation("tied_generator") == config(untied_generator=False, **same_size)


def test_every_file_in_configs_says_what_it_is_its_command_cost_and_result():
    files = sorted(CONFIGS.rglob("*.toml"))
    assert len(files) >= 9
    for path in files:
        head = path.read_text().split("\n\n")[0]
        place = path.relative_to(CONFIGS.parent).as_posix()
        if "finetuning" in path.parts:
            continue
        for wanted in (f"--config={place}", "# Cost: ", "# Expect: "):
            assert wanted in head, path


# ---- which value wins


def test_flag_beats_hparams_beats_config_beats_size_beats_default(toml):
    file = toml(
        'model_size = "base"\nseed = 2\nmask_prob = 0.2\nlearning_rate = 1e-3\n'
    )
    resolved = resolve(
        {"seed": 3, "mask_prob": 0.3}, config_file=file, flags={"seed": 4}
    )
    got = {
        name: (getattr(resolved.config, name), resolved.sources[name])
        for name in (
            "seed",
            "mask_prob",
            "learning_rate",
            "train_batch_size",
            "disc_weight",
        )  # fmt: skip
    }
    assert got == {
        "seed": (4, "flag"),
        "mask_prob": (0.3, "--hparams"),
        "learning_rate": (1e-3, "--config"),
        "train_batch_size": (256, "size base"),
        "disc_weight": (50.0, "default"),
    }


def test_every_value_has_a_source_and_a_line_in_the_table():
    resolved = resolve({"model_size": "base"})
    assert resolved.sources.keys() == resolved.config.to_dict().keys()
    lines = {line.split()[0]: line for line in resolved.table().splitlines()}
    assert lines.keys() == resolved.sources.keys()
    assert lines["learning_rate"].split() == ["learning_rate", "0.0002", "size", "base"]


def test_a_size_in_hparams_takes_its_values_along_past_the_config_file(toml):
    resolved = resolve({"model_size": "base"}, config_file=toml('model_size = "tiny"'))
    assert resolved.config == config(model_size="base")


def test_choosing_base_chooses_all_of_its_values():
    base = config(model_size="base")
    assert (base.learning_rate, base.train_batch_size) == (2e-4, 256)
    assert (base.max_seq_length, base.num_train_steps) == (512, 766_000)
    assert base.discriminator.embedding_size == 768
    assert base.generator.hidden_size == 256


def test_the_originals_base_keeps_the_learning_rate_and_batch_of_small():
    base = config(model_size="base", compat="original")
    assert (base.learning_rate, base.train_batch_size) == (5e-4, 128)
    assert (base.max_seq_length, base.num_train_steps) == (128, 1_000_000)
    assert base.generator.hidden_size == 192  # a quarter, not a third
    assert base.discriminator.embedding_size == 768
    assert "tiny" in error({"model_size": "tiny", "compat": "original"})


def test_debug_shortens_a_run_and_given_values_win():
    debug = config(debug=True, model_size="base", num_train_steps=7)
    assert debug.num_train_steps == 7
    assert (debug.train_batch_size, debug.eval_batch_size) == (8, 4)
    assert (debug.iterations_per_loop, debug.num_eval_steps) == (1, 2)
    assert debug.learning_rate == 2e-4  # still base's
    assert config(debug=False).train_batch_size == 128


def test_predictions_per_sequence_follow_mask_prob_and_length():
    assert config().max_predictions_per_seq == 19  # int(.155 * 128)
    assert config(model_size="large").max_predictions_per_seq == 130  # int(.255 * 512)
    assert config(mask_prob=0.5).max_predictions_per_seq == 64
    assert config(max_predictions_per_seq=None).max_predictions_per_seq == 19
    assert resolve().sources["max_predictions_per_seq"] == "mask_prob"


def test_given_predictions_per_sequence_win():
    resolved = resolve({"max_predictions_per_seq": 5, "mask_prob": 0.5})
    assert resolved.config.max_predictions_per_seq == 5
    assert resolved.sources["max_predictions_per_seq"] == "--hparams"


def test_files_are_looked_for_below_data_dir_unless_named():
    found = config(vocab_file="/else/where.txt")
    assert found.pretrain_tfrecords == "data/pretrain_tfrecords/pretrain_data.tfrecord*"
    assert found.model_dir == "data/models/m"
    assert found.vocab_file == "/else/where.txt"


# ---- sizes


def test_small_has_embeddings_of_128_unless_told_otherwise():
    assert config().discriminator.embedding_size == 128
    assert config(embedding_size=64).discriminator.embedding_size == 64
    assert config(embedding_size=None).discriminator.embedding_size == 256
    assert config(model_size="base").discriminator.embedding_size == 768
    overridden = config(model_size="base", model_hparam_overrides={"hidden_size": 96})
    assert overridden.discriminator.embedding_size == 96


def test_no_embeddings_is_an_error_not_the_default():
    assert "embedding_size must be at least 1, got 0" in error({"embedding_size": 0})


@pytest.mark.parametrize(
    ("fraction", "layers"),
    [
        (0.375, 4),  # 4.5 rounds to the even 4
        (0.125, 2),  # 1.5 rounds to the even 2
        (1.125, 14),  # 13.5 rounds to the even 14
        (0.7, 8),  # 8.4
    ],
)
def test_a_generators_layers_are_rounded_half_to_even(fraction, layers):
    assert config(generator_layers=fraction).generator.num_hidden_layers == layers


def test_a_generators_width_is_rounded_half_to_even_and_decides_the_rest():
    # 256 * 0.251953125 = 64.5 becomes 64; 256 * 0.255859375 = 65.5 becomes 66.
    assert config(generator_hidden_size=0.251953125).generator.hidden_size == 64
    generator = config(generator_hidden_size=0.255859375).generator
    assert (generator.hidden_size, generator.intermediate_size) == (66, 264)
    assert generator.num_attention_heads == 1
    assert config(model_size="base").generator.num_attention_heads == 4
    narrow = config(generator_hidden_size=0.125).generator  # less than one head of 64
    assert (narrow.hidden_size, narrow.num_attention_heads) == (32, 1)


def test_overridden_heads_and_inner_width_do_not_reach_the_generator():
    overrides = {"num_attention_heads": 8, "intermediate_size": 100}
    found = config(model_hparam_overrides=overrides)
    assert found.discriminator.num_attention_heads == 8
    assert found.generator.num_attention_heads == 1
    assert found.generator.intermediate_size == 256


def test_a_generator_with_embeddings_of_its_own_has_them_as_wide_as_itself():
    assert config().generator.embedding_size == 128
    untied = config(untied_generator_embeddings=True)
    assert untied.generator.embedding_size == untied.generator.hidden_size == 64


def test_an_impossible_generator_is_named_with_its_fractions():
    assert "generator_layers 0.04" in error({"generator_layers": 0.04})  # rounds to 0
    assert "generator_hidden_size 0.001" in error({"generator_hidden_size": 0.001})
    # 145 units can't be divided among their 145 // 64 = 2 heads.
    overrides = {"model_hparam_overrides": {"hidden_size": 192}}
    message = error(overrides | {"generator_hidden_size": 145 / 192})
    assert "generator" in message and "145" in message


def test_hidden_size_must_be_a_multiple_of_the_heads():
    message = error({"model_hparam_overrides": {"num_attention_heads": 3}})
    assert "hidden_size 256" in message and "num_attention_heads 3" in message


def test_inputs_longer_than_the_position_table_are_refused():
    message = error({"max_seq_length": 513})
    assert "513" in message and "512" in message
    assert "model_hparam_overrides.max_position_embeddings" in message
    longer = {"max_position_embeddings": 1024}
    found = config(max_seq_length=513, model_hparam_overrides=longer)
    assert found.discriminator.max_position_embeddings == 1024


def test_an_override_is_checked_and_converted_as_any_other_value():
    found = config(model_hparam_overrides={"hidden_size": 128.0})
    assert isinstance(found.discriminator.hidden_size, int)
    message = error({"model_hparam_overrides": {"hiden_size": 128}})
    assert "'hiden_size'" in message and "'hidden_size'" in message
    message = error({"model_hparam_overrides": {"hidden_size": "128"}})
    assert "hidden_size" in message and "str" in message
    message = error({"model_hparam_overrides": {"vocab_size": 99}})
    assert "hyper-parameter of its own" in message
    message = error({"model_hparam_overrides": {"initializer_range": float("nan")}})
    assert "initializer_range" in message


# ---- what can't be


def test_an_unknown_name_names_the_nearest_known_one(toml):
    message = error({"learning_rte": 1.0})
    assert "'learning_rte'" in message and "'learning_rate'" in message
    assert "--hparams" in message
    message = error(config_file=toml("train_batchsize = 3"))
    assert "'train_batch_size'" in message and "--config" in message
    assert "did you mean" not in error({"xyzzy": 1})


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [
        ("num_train_steps", True, "int"),
        ("num_train_steps", 1.5, "int"),
        ("num_train_steps", "128", "int"),
        ("num_train_steps", None, "int"),
        ("num_train_steps", float("inf"), "int"),
        ("learning_rate", "5e-4", "float"),
        ("learning_rate", True, "float"),
        ("learning_rate", None, "float"),
        ("learning_rate", 10**400, "float"),
        ("do_train", 0, "bool"),
        ("do_train", "false", "bool"),
        ("model_size", 3, "str"),
        ("model_hparam_overrides", [], "dict"),
        ("vocab_file", 3, "str"),
    ],
)
def test_a_value_of_the_wrong_type_is_refused(name, value, wanted):
    message = error({name: value})
    assert name in message and f"must be {wanted}" in message


def test_a_million_may_be_written_as_1e6_and_a_rate_as_1():
    found = resolve('{"num_train_steps": 1e6, "disc_weight": 1}').config
    assert found.num_train_steps == 1_000_000
    assert isinstance(found.num_train_steps, int)
    assert isinstance(found.disc_weight, float)


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity", "-1"])
@pytest.mark.parametrize(
    "name",
    ["learning_rate", "temperature", "mask_prob", "gen_weight", "disc_weight",
     "weight_decay_rate", "lr_decay_power", "generator_layers",
     "generator_hidden_size"],
)  # fmt: skip
def test_a_number_that_is_none_or_negative_is_refused(name, value):
    assert name in error(f'{{"{name}": {value}}}')


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("train_batch_size", 0),
        ("num_train_steps", 0),
        ("max_seq_length", 3),
        ("num_warmup_steps", -1),
        ("seed", -1),
        ("seed", 2**31),
        ("mask_prob", 1.0),
        ("max_predictions_per_seq", 129),
        ("model_size", "huge"),
        ("compat", "orignal"),
        ("use_tpu", True),
        ("electric_objective", True),
    ],
)
def test_a_value_out_of_its_range_is_refused(name, value):
    assert name in error({name: value})


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a\\b", "/tmp"])
def test_a_model_name_that_leaves_its_folder_is_refused(name):
    with pytest.raises(InputError, match="plain folder name"):
        load_config(data_dir="data", model_name=name)


def test_data_dir_and_model_name_are_flags(toml):
    assert "--data_dir" in error({"data_dir": "elsewhere"})
    assert "--model_name" in error(config_file=toml('model_name = "x"'))


def test_a_config_is_frozen():
    found = config()
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.learning_rate = 1.0
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.discriminator.hidden_size = 1


def test_a_config_does_not_share_the_dict_that_it_was_given():
    overrides = {"num_hidden_layers": 2}
    found = config(model_hparam_overrides=overrides)
    overrides["num_hidden_layers"] = 3
    assert found.discriminator.num_hidden_layers == 2


def test_an_encoder_config_checks_itself():
    fields = dict(
        vocab_size=10, hidden_size=8, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=8, embedding_size=8,
    )  # fmt: skip
    assert EncoderConfig(**fields).hidden_act == "gelu"
    for wrong in (
        {"vocab_size": 0},
        {"hidden_dropout_prob": 1.0},
        {"hidden_dropout_prob": float("nan")},
        {"hidden_act": "gelu_new"},
    ):
        with pytest.raises(InputError, match=next(iter(wrong))):
            EncoderConfig(**(fields | wrong))


# ---- how hparams and config files are read


def test_hparams_are_json_text_or_the_path_of_a_json_file(tmp_path):
    text = '{"learning_rate": 0.25, "model_size": "base"}'
    path = tmp_path / "hparams.json"
    path.write_text(text)
    assert resolve(text).config == resolve(str(path)).config
    assert resolve(f"  {text}\n").config.learning_rate == 0.25


def test_broken_json_is_one_line_that_shows_how_to_quote():
    message = error('{"model_size": "base"')
    assert "not valid JSON" in message and "--hparams '{" in message


@pytest.mark.parametrize(
    "received",
    [
        "{model_size: base}",  # PowerShell takes the double quotes away
        "'{model_size:",  # cmd.exe splits at the blank and keeps the single ones
        '\'{"model_size": "base"}\'',
    ],
)
def test_json_that_a_windows_prompt_has_taken_apart_is_told_how_to_be_quoted(received):
    message = error(received)
    assert "not valid JSON" in message and received in message
    assert '--hparams "{\\"model_size\\": \\"base\\"}"' in message


def test_hparams_that_are_no_object_or_no_file_are_refused(tmp_path):
    assert "must be a JSON object, got list" in error('["model_size"]')
    listed = tmp_path / "list.json"
    listed.write_text("[]")
    assert "must be a JSON object, got list" in error(str(listed))
    missing = str(tmp_path / "missing.json")
    message = error(missing)
    assert missing in message and "neither a JSON object nor a readable" in message
    assert str(tmp_path) in error(str(tmp_path))  # a folder
    binary = tmp_path / "binary.json"
    binary.write_bytes(b"\xff\xfe")
    assert str(binary) in error(str(binary))


def test_a_broken_config_file_is_named(toml, tmp_path):
    file = toml("learning_rate = ")
    assert f"--config {file} is not valid TOML" in error(config_file=file)
    file = toml(b'vocab_file = "\xff"')
    assert file in error(config_file=file)
    missing = str(tmp_path / "missing.toml")
    assert missing in error(config_file=missing)


def test_a_config_comes_back_from_the_folder_of_its_model(tmp_path):
    saved = config(model_size="base", model_hparam_overrides={"num_hidden_layers": 2})
    (tmp_path / "config.json").write_text(json.dumps(saved.to_dict()))
    assert saved_config(tmp_path) == saved
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(InputError, match="damaged"):
        saved_config(tmp_path)
    with pytest.raises(InputError, match="not a model folder"):
        saved_config(tmp_path / "elsewhere")


def test_debug_mode_beats_a_config_file_but_not_what_is_given_by_hand(tmp_path):
    path = tmp_path / "long.toml"
    path.write_text("num_train_steps = 1000\ntrain_batch_size = 64")
    resolved = load_config(
        data_dir="d",
        model_name="m",
        config_file=str(path),
        hparams={"debug": True, "train_batch_size": 4},
    )
    assert resolved.config.num_train_steps == 20
    assert resolved.config.train_batch_size == 4
