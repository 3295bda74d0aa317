"""A checkpoint holds every variable, or is not there; a damaged one changes nothing."""

import json
import os
import pathlib
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from electra_tf.errors import InputError
from electra_tf.model_folder import variables_of
from electra_tf.training import checkpoint
from electra_tf.training.checkpoint import Checkpoints, find_checkpoint, finished
from electra_tf.training.optimizer import AdamWeightDecay

ROOT = pathlib.Path(__file__).parent.parent


class Blocks(keras.Model):
    """A model that holds its layers in a list, as an encoder does."""

    def __init__(self):
        super().__init__(name="objective")
        self.blocks = [
            keras.layers.Dense(3, name=f"layer_{i}", kernel_initializer="ones")
            for i in range(2)
        ]

    def build(self, input_shape=None):
        for block in self.blocks:
            block.build((None, 3))


def trained(steps=2):
    """{name: variable} of a model and its optimizer after a few updates."""
    model = Blocks()
    model.build()
    optimizer = AdamWeightDecay(0.1)
    optimizer.build(model.trainable_variables)
    for step in range(steps):
        gradients = [
            tf.fill(v.shape, 1.0 + i + step)
            for i, v in enumerate(model.trainable_variables)
        ]
        optimizer.apply(gradients, model.trainable_variables)
    return variables_of(model, optimizer)


def numbers(**values):
    return {name: tf.Variable(value) for name, value in values.items()}


def values(variables):
    return {name: variable.numpy() for name, variable in variables.items()}


def same(a, b):
    return a.keys() == b.keys() and all(np.array_equal(a[k], b[k]) for k in a)


def damage(path, how):
    """Damages a checkpoint's files as disks and copying do."""
    path = pathlib.Path(path)
    data = path / "variables.data-00000-of-00001"
    if how == "no index":
        (path / "variables.index").unlink()
    elif how == "no data":
        data.unlink()
    elif how == "flipped bytes":
        content = bytearray(data.read_bytes())
        content[0] ^= 1  # first and last: one of them may be of global_step, which
        content[-1] ^= 1  # is not read
        data.write_bytes(content)
    elif how == "broken state":
        (path / "state.json").write_text('{"step": ')
    elif how == "state without a step":
        (path / "state.json").write_text("{}")
    else:
        file = path / how.removeprefix("truncated ")
        file.write_bytes(file.read_bytes()[:-5])


DAMAGES = (
    "no index", "no data", "flipped bytes", "broken state", "state without a step",
    "truncated variables.index", "truncated variables.data-00000-of-00001",
)  # fmt: skip


# ---- what is in a checkpoint


def test_every_variable_comes_back_layers_in_lists_and_slots_too(tmp_path):
    saved = trained(steps=3)
    # 2 layers of 2 variables, each with 2 slots, and the count of updates.
    assert len(saved) == 2 * 2 * 3 + 1
    Checkpoints(tmp_path, saved).save(3, {"why": "test"})
    fresh = trained(steps=1)
    assert not same(values(fresh), values(saved))
    state = Checkpoints(tmp_path, fresh).restore_latest()
    assert state == {"step": 3, "why": "test"}
    assert same(values(fresh), values(saved))
    assert fresh["optimizer/iterations"].numpy() == 3


def test_a_checkpoint_holds_its_step_and_the_variables_by_path(tmp_path):
    saved = trained()
    path = Checkpoints(tmp_path, saved).save(7, {})
    reader = tf.train.load_checkpoint(os.path.join(path, checkpoint.PREFIX))
    names = reader.get_variable_to_shape_map().keys()
    assert names == saved.keys() | {"global_step"}
    assert {"layer_0/kernel", "layer_1/bias", "layer_1/kernel/adam_v"} < names
    assert reader.get_tensor("global_step") == 7
    np.testing.assert_array_equal(
        reader.get_tensor("layer_1/kernel"), saved["layer_1/kernel"].numpy()
    )


def test_types_and_shapes_come_back(tmp_path):
    written = numbers(
        scalar=3.5, count=tf.constant(2**40, tf.int64), table=np.ones((2, 3), "f4"),
        none=np.zeros((0, 4), "f4"), half=tf.constant([1.5], tf.float16),
    )  # fmt: skip
    Checkpoints(tmp_path, written).save(1, {})
    fresh = {k: tf.Variable(tf.zeros_like(v)) for k, v in written.items()}
    Checkpoints(tmp_path, fresh).restore_latest()
    assert same(values(fresh), values(written))


def test_a_folder_without_checkpoints_restores_nothing(tmp_path):
    a = numbers(a=1.0)
    assert Checkpoints(tmp_path, a).restore_latest() is None
    assert Checkpoints(tmp_path / "not there", a).restore_latest() is None
    assert a["a"].numpy() == 1.0


# ---- which are kept


def test_the_latest_few_are_kept_and_restored(tmp_path):
    a = numbers(a=0.0)
    checkpoints = Checkpoints(tmp_path, a, keep=2)
    for step in (9, 10, 100, 2000):
        a["a"].assign(step)
        checkpoints.save(step, {})
    assert finished(tmp_path) == ["step_00000100", "step_00002000"]
    a["a"].assign(-1)
    assert checkpoints.restore_latest()["step"] == 2000
    assert a["a"].numpy() == 2000


def test_steps_are_ordered_as_numbers_beyond_eight_digits(tmp_path):
    checkpoints = Checkpoints(tmp_path, numbers(a=0.0))
    for step in (99_999_999, 100_000_000):
        checkpoints.save(step, {})
    assert finished(tmp_path)[-1] == "step_100000000"


def test_a_step_saved_again_replaces_itself(tmp_path):
    a = numbers(a=1.0)
    checkpoints = Checkpoints(tmp_path, a, keep=1)
    checkpoints.save(5, {"try": 1})
    a["a"].assign(2.0)
    checkpoints.save(5, {"try": 2})
    a["a"].assign(0.0)
    assert checkpoints.restore_latest() == {"step": 5, "try": 2}
    assert a["a"].numpy() == 2.0


def test_the_best_is_kept_beside_the_latest_and_replaced_by_a_better_one(tmp_path):
    a = numbers(a=1.0)
    checkpoints = Checkpoints(tmp_path, a, keep=1)
    checkpoints.save_best(10, {"eval_loss": 2.0})
    for step in (10, 20, 30):
        checkpoints.save(step, {})
    assert finished(tmp_path) == ["step_00000030"]
    assert finished(tmp_path / "best") == ["step_00000010"]
    checkpoints.save_best(20, {"eval_loss": 1.0})
    assert finished(tmp_path / "best") == ["step_00000020"]
    # It is for later use; a run goes on from the latest.
    assert find_checkpoint(tmp_path) == str(tmp_path / "best" / "step_00000020")
    assert checkpoints.restore_latest()["step"] == 30


def test_without_a_best_the_latest_is_found_and_without_any_an_error(tmp_path):
    with pytest.raises(InputError, match="no checkpoint in"):
        find_checkpoint(tmp_path)
    Checkpoints(tmp_path, numbers(a=1.0)).save(4, {})
    assert find_checkpoint(tmp_path) == str(tmp_path / "step_00000004")


def test_what_the_user_put_into_the_folder_stays(tmp_path):
    (tmp_path / "notes").mkdir()
    (tmp_path / "step_mine").mkdir()
    checkpoints = Checkpoints(tmp_path, numbers(a=1.0), keep=1)
    for step in (1, 2):
        checkpoints.save(step, {})
    assert sorted(os.listdir(tmp_path)) == ["notes", "step_00000002", "step_mine"]


# ---- unfinished and damaged ones


def test_an_unfinished_checkpoint_is_never_read(tmp_path):
    a = numbers(a=1.0)
    checkpoints = Checkpoints(tmp_path, a)
    checkpoints.save(1, {})
    a["a"].assign(2.0)
    (pathlib.Path(checkpoints.save(2, {})) / "state.json").unlink()  # written last
    a["a"].assign(3.0)
    whole = checkpoints.save(3, {})
    os.rename(whole, whole + ".unfinished")  # killed before its renaming
    assert finished(tmp_path) == ["step_00000001"]
    assert find_checkpoint(tmp_path) == str(tmp_path / "step_00000001")
    assert checkpoints.restore_latest()["step"] == 1
    assert a["a"].numpy() == 1.0


@pytest.mark.parametrize("how", DAMAGES)
def test_a_damaged_latest_checkpoint_falls_back_to_the_one_before(
    tmp_path, how, capsys
):
    saved = trained(steps=1)
    checkpoints = Checkpoints(tmp_path, saved)
    checkpoints.save(1, {})
    expected = values(saved)
    later = trained(steps=2)
    path = Checkpoints(tmp_path, later).save(2, {})
    damage(path, how)
    assert Checkpoints(tmp_path, later).restore_latest()["step"] == 1
    assert same(values(later), expected)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("warning: ") and path in line and "damaged" in line


@pytest.mark.parametrize("how", DAMAGES)
def test_damaged_checkpoints_alone_are_an_error_and_change_nothing(tmp_path, how):
    saved = trained()
    for step in (1, 2):
        damage(Checkpoints(tmp_path, saved).save(step, {}), how)
    fresh = trained(steps=1)
    before = values(fresh)
    with pytest.raises(InputError, match="none of the 2 checkpoints") as caught:
        Checkpoints(tmp_path, fresh).restore_latest()
    assert str(tmp_path) in str(caught.value)
    assert same(values(fresh), before)


def test_a_damaged_checkpoint_does_not_push_out_what_is_saved_after_it(tmp_path):
    # Fallen back from 30 to 20, the run saves 25: it must not count as the oldest.
    a = numbers(a=20.0)
    checkpoints = Checkpoints(tmp_path, a, keep=1)
    checkpoints.save(20, {})
    path = Checkpoints(tmp_path, a, keep=9).save(30, {})
    damage(path, "flipped bytes")
    assert checkpoints.restore_latest()["step"] == 20
    a["a"].assign(25.0)
    checkpoints.save(25, {})
    assert finished(tmp_path) == ["step_00000025"]
    assert checkpoints.restore_latest()["step"] == 25


# ---- checkpoints of another model


def test_a_missing_variable_is_named_and_nothing_changes(tmp_path):
    Checkpoints(tmp_path, numbers(a=1.0, b=2.0)).save(1, {})
    fresh = numbers(a=0.0, c=0.0)
    with pytest.raises(InputError, match="lacks 1 variables, 'c' among") as caught:
        Checkpoints(tmp_path, fresh).restore_latest()
    assert "\n" not in str(caught.value) and str(tmp_path) in str(caught.value)
    assert same(values(fresh), {"a": 0.0, "c": 0.0})


def test_another_shape_is_named_and_nothing_changes(tmp_path):
    Checkpoints(tmp_path, numbers(a=1.0, b=[1.0, 2.0])).save(1, {})
    fresh = numbers(a=0.0, b=[0.0, 0.0, 0.0])
    with pytest.raises(InputError, match=r"b has shape \[2\], the model's is \[3\]"):
        Checkpoints(tmp_path, fresh).restore_latest()
    assert fresh["a"].numpy() == 0.0


def test_variables_that_a_model_does_not_want_are_left_in_the_checkpoint(tmp_path):
    path = Checkpoints(tmp_path, numbers(a=1.0, b=2.0)).save(1, {})
    only = numbers(b=0.0)
    checkpoint.restore(path, only)
    assert only["b"].numpy() == 2.0


# ---- a disk that takes no more

FULL_DISK = """
import os, resource, sys
import numpy as np
import tensorflow as tf
from electra_tf.errors import InputError
from electra_tf.training.checkpoint import Checkpoints, finished

folder = sys.argv[1]
table = tf.Variable(tf.random.normal([1000, 100]))  # 400 kB
checkpoints = Checkpoints(folder, {"table": table})
checkpoints.save(1, {})
first = table.numpy()
table.assign(tf.random.normal([1000, 100]))
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))
for save in (checkpoints.save, checkpoints.save_best):
    try:
        save(2, {})
    except InputError as error:
        print("refused:", error)
print(sorted(os.listdir(folder)), finished(folder + "/best"))
assert checkpoints.restore_latest()["step"] == 1
assert np.array_equal(table.numpy(), first)
"""


def test_a_full_disk_leaves_earlier_checkpoints_whole_and_nothing_half_written(
    tmp_path,
):
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(tmp_path)],
        capture_output=True, text=True, timeout=120,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    *refused, left = done.stdout.splitlines()
    assert len(refused) == 2
    for line in refused:
        assert line.startswith("refused: ") and "can't be written" in line
        assert "step_00000002" in line and "{{" not in line
        assert "earlier checkpoints are whole" in line
    assert left == "['best', 'step_00000001'] []"


def test_a_folder_that_cannot_be_made_is_one_clear_line(tmp_path):
    (tmp_path / "checkpoints").write_text("a file")
    with pytest.raises(InputError, match="can't be written") as caught:
        Checkpoints(tmp_path / "checkpoints", numbers(a=1.0)).save(1, {})
    assert "\n" not in str(caught.value)


def test_a_state_that_is_read_back_is_what_was_saved(tmp_path):
    path = Checkpoints(tmp_path, numbers(a=1.0)).save(3, {"config": {"seed": 1}})
    assert checkpoint.read_state(path) == {"step": 3, "config": {"seed": 1}}
    written = json.loads((pathlib.Path(path) / "state.json").read_text())
    assert written["step"] == 3
