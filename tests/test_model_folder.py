"""Config, records, vocabulary and model folder agree, or both sides are named."""

import json
import pathlib
import types

import pytest
import tensorflow as tf

from electra_tf import model_folder
from electra_tf.config import load_config, read_values
from electra_tf.data import records
from electra_tf.data.tokenization import TokenizerSettings, Vocabulary
from electra_tf.errors import InputError

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


@pytest.fixture
def data_dir(tmp_path):
    (tmp_path / "vocab.txt").write_text("\n".join([*SPECIAL, "a", "b", "##c"]) + "\n")
    return tmp_path


def resolve(data_dir, **hparams):
    return load_config(data_dir=data_dir, model_name="m", hparams=hparams)


def vocabulary_of(data_dir):
    return Vocabulary.load(data_dir / "vocab.txt")


def other_vocabulary(path):
    path.write_text("\n".join([*SPECIAL, "x"]) + "\n")
    return Vocabulary.load(path)


def manifest(vocabulary, do_lower_case=True, strip_accents=None):
    return records.Manifest(
        max_seq_length=128,
        settings={},
        tokenizer={"do_lower_case": do_lower_case, "strip_accents": strip_accents},
        vocabulary={"size": vocabulary.size, "sha256": vocabulary.sha256},
        counts={},
        shards=[],
    )


def agree(data_dir, found=None, **hparams):
    resolved = resolve(data_dir, **hparams)
    said = []
    manifests = [] if found is None else [found]
    result = model_folder.agree(
        resolved.config, resolved.sources, manifests, said.append
    )
    return *result, said


def one_line(caught):
    assert "\n" not in str(caught.value)
    return str(caught.value)


# ---- config, vocabulary and records


def test_without_vocab_size_the_vocabularys_is_taken_and_said(data_dir):
    vocabulary, settings, config, said = agree(data_dir)
    assert vocabulary.size == config.vocab_size == 8
    assert settings == TokenizerSettings(do_lower_case=True)
    (line,) = said
    assert "vocab_size: 8" in line and str(data_dir / "vocab.txt") in line


def test_a_larger_vocab_size_is_taken_as_padding_of_the_table(data_dir):
    _, _, config, said = agree(data_dir, vocab_size=64)
    assert config.vocab_size == 64 and said == []


def test_a_smaller_vocab_size_names_config_and_vocabulary(data_dir):
    with pytest.raises(InputError) as caught:
        agree(data_dir, vocab_size=7)
    message = one_line(caught)
    assert "vocab_size is 7 in --hparams" in message
    assert f"{data_dir / 'vocab.txt'} has 8 pieces" in message


def test_records_of_another_vocabulary_name_both(data_dir):
    theirs = other_vocabulary(data_dir / "other.txt")
    with pytest.raises(InputError) as caught:
        agree(data_dir, manifest(theirs))
    message = one_line(caught)
    assert f"6 pieces, sha256 {theirs.sha256[:12]}" in message
    assert str(data_dir / "vocab.txt") in message
    assert f"8 pieces, sha256 {vocabulary_of(data_dir).sha256[:12]}" in message


def test_tokenizer_settings_travel_from_the_records_to_the_model(data_dir):
    cased = manifest(vocabulary_of(data_dir), do_lower_case=False)
    _, settings, config, _ = agree(data_dir, cased)
    assert settings.do_lower_case is False and config.do_lower_case is False
    german = manifest(vocabulary_of(data_dir), strip_accents=False)
    assert agree(data_dir, german)[1].strips_accents is False


def test_a_contradiction_about_case_names_config_and_records(data_dir):
    cased = manifest(vocabulary_of(data_dir), do_lower_case=False)
    with pytest.raises(InputError) as caught:
        agree(data_dir, cased, do_lower_case=True)
    message = one_line(caught)
    assert "do_lower_case is True in --hparams" in message
    assert "records were built with False" in message
    assert agree(data_dir, cased, do_lower_case=False)[2].do_lower_case is False


def test_records_without_a_manifest_are_believed(data_dir):
    _, settings, config, _ = agree(data_dir, None, do_lower_case=False)
    assert settings.do_lower_case is config.do_lower_case is False


def test_a_missing_vocabulary_is_named(tmp_path):
    with pytest.raises(InputError, match="vocab.txt does not exist"):
        agree(tmp_path)


# ---- config and model folder


@pytest.fixture
def trained(data_dir):
    """A folder in which a run has saved a checkpoint; returns its config."""
    vocabulary, settings, config, _ = agree(data_dir)
    model_folder.create(config, vocabulary, settings)
    step = pathlib.Path(config.model_dir, "checkpoints", "step_00000001")
    step.mkdir(parents=True)
    (step / "state.json").write_text("{}")
    return config


def check(data_dir, settings=None, **hparams):
    vocabulary, found, config, _ = agree(data_dir, None, **hparams)
    said = []
    model_folder.check(config, vocabulary, settings or found, said.append)
    return said


def test_a_model_folder_holds_what_everything_later_reads(data_dir, trained):
    found = sorted(p.name for p in (data_dir / "models" / "m").iterdir())
    assert found == ["checkpoints", "config.json", "tokenizer.json", "vocab.txt"]
    assert read_values(trained.model_dir) == trained.to_dict()


def test_a_new_model_folder_and_the_same_config_are_fine(data_dir):
    assert check(data_dir) == []  # nothing there
    vocabulary, settings, config, _ = agree(data_dir)
    model_folder.create(config, vocabulary, settings)
    assert check(data_dir) == []
    model_folder.create(config, vocabulary, settings)  # as a continued run does
    assert check(data_dir) == []


def test_a_folder_without_a_checkpoint_may_get_another_config(data_dir):
    vocabulary, settings, config, _ = agree(data_dir)
    model_folder.create(config, vocabulary, settings)
    assert check(data_dir, mask_prob=0.2) == []


def test_training_and_evaluation_records_of_two_kinds_are_refused(data_dir):
    cased = manifest(vocabulary_of(data_dir), do_lower_case=False)
    lower = manifest(vocabulary_of(data_dir))
    resolved = resolve(data_dir)
    with pytest.raises(InputError, match="different tokenizer settings"):
        model_folder.agree(resolved.config, resolved.sources, [lower, cased])
    other = manifest(other_vocabulary(data_dir / "other.txt"))
    with pytest.raises(InputError, match="another vocabulary"):
        model_folder.agree(resolved.config, resolved.sources, [lower, other])


def test_another_config_names_each_changed_value_of_both_sides(data_dir, trained):
    with pytest.raises(InputError) as caught:
        check(data_dir, learning_rate=1e-3, mask_prob=0.2)
    message = one_line(caught)
    assert trained.model_dir in message
    assert "learning_rate 0.0005 -> 0.001" in message
    assert "mask_prob 0.15 -> 0.2" in message
    assert "train_batch_size" not in message


@pytest.mark.parametrize(
    "changed",
    [
        {"model_hparam_overrides": {"num_hidden_layers": 2}},
        {"seed": 2},
        {"shuffle_shards": 1},
        {"train_batch_size": 64},
        {"compat": "original"},
        {"do_lower_case": False},
    ],
)
def test_what_changes_the_result_may_not_change(data_dir, trained, changed):
    with pytest.raises(InputError, match=next(iter(changed))):
        check(data_dir, **changed)


def test_what_does_not_touch_the_result_may_change(data_dir, trained):
    assert check(
        data_dir, iterations_per_loop=1, save_checkpoints_steps=7, do_eval=True,
        keep_checkpoint_max=1, eval_every_steps=0, eval_batch_size=4, tpu_name="v3",
        tpu_zone="there", num_tpu_cores=8, gcp_project="mine",
    ) == []  # fmt: skip


def test_every_free_value_is_a_hyper_parameter(trained):
    assert model_folder.FREE <= trained.to_dict().keys()


def test_another_number_of_steps_is_announced(data_dir, trained):
    (line,) = check(data_dir, num_train_steps=2_000_000)
    assert "num_train_steps 1,000,000 -> 2,000,000" in line and "schedule" in line


def test_a_folder_from_before_a_value_existed_is_taken(data_dir, trained):
    path = data_dir / "models" / "m" / "config.json"
    old = json.loads(path.read_text())
    del old["shuffle_shards"], old["num_train_steps"]
    path.write_text(json.dumps(old))
    assert check(data_dir) == []


def test_a_model_of_another_vocabulary_names_both(data_dir, trained):
    before = vocabulary_of(data_dir)
    (data_dir / "vocab.txt").write_text("\n".join([*SPECIAL, "a", "b", "z"]) + "\n")
    with pytest.raises(InputError) as caught:
        check(data_dir)
    message = one_line(caught)
    assert trained.model_dir in message and before.sha256[:12] in message
    assert vocabulary_of(data_dir).sha256[:12] in message


def test_a_model_of_other_accents_names_both(data_dir, trained):
    with pytest.raises(InputError) as caught:
        check(data_dir, settings=TokenizerSettings(True, strip_accents=False))
    message = one_line(caught)
    assert "strip_accents=None" in message and "strip_accents=False" in message
    # Spelt differently, meaning the same:
    assert check(data_dir, settings=TokenizerSettings(True, strip_accents=True)) == []


@pytest.mark.parametrize("content", ["", '{"seed": ', "[]", "null"])
def test_a_damaged_config_is_one_line_with_its_path(data_dir, trained, content):
    path = data_dir / "models" / "m" / "config.json"
    path.write_text(content)
    with pytest.raises(InputError, match="is damaged") as caught:
        check(data_dir)
    assert str(path) in one_line(caught)


def test_a_config_in_another_encoding_is_damaged(data_dir, trained):
    (data_dir / "models" / "m" / "config.json").write_bytes(b"\xff\xfe{}")
    with pytest.raises(InputError, match="is damaged"):
        check(data_dir)


def test_a_changed_vocabulary_in_the_model_folder_is_found(data_dir, trained):
    (data_dir / "models" / "m" / "vocab.txt").write_text("\n".join(SPECIAL))
    with pytest.raises(InputError) as caught:
        check(data_dir)
    assert trained.model_dir in one_line(caught)


def test_a_folder_without_a_config_is_no_model(tmp_path):
    with pytest.raises(InputError, match="not a model folder"):
        read_values(str(tmp_path))


def test_an_interrupted_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = str(tmp_path / "config.json")
    model_folder.write_text(path, "old")

    def full(source, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(model_folder.os, "replace", full)
    with pytest.raises(OSError, match="No space"):
        model_folder.write_text(path, "new")
    assert (tmp_path / "config.json").read_text() == "old"


# ---- what a checkpoint says of itself


def test_a_checkpoints_state_is_json_with_config_and_vocabulary(data_dir):
    config, vocabulary = resolve(data_dir).config, vocabulary_of(data_dir)
    state = json.loads(json.dumps(model_folder.state_of(config, vocabulary)))
    assert state["config"]["learning_rate"] == 5e-4
    assert state["vocabulary_sha256"] == vocabulary.sha256


def test_variables_are_named_below_the_models_root():
    def variable(path):
        return types.SimpleNamespace(path=path, value=tf.Variable(0.0))

    weights = [variable("electra/embeddings/word"), variable("electra/head/bias")]
    objective = types.SimpleNamespace(weights=weights, trainable_variables=weights[:1])
    optimizer = types.SimpleNamespace(
        iterations=variable("adam/iterations"),
        slots=lambda variables: {f"{v.path}/adam_m": v for v in variables},
    )
    assert model_folder.variables_of(objective).keys() == {
        "embeddings/word",
        "head/bias",
    }
    assert model_folder.variables_of(objective, optimizer).keys() == {
        "embeddings/word",
        "head/bias",
        "embeddings/word/adam_m",
        "optimizer/iterations",
    }
