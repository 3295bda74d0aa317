"""Checkpoints: every variable under its path, the optimizer's state, the step, why.

    checkpoints/step_00001000/variables.*   TensorFlow's tensor files
    checkpoints/step_00001000/state.json    step, config, fingerprints; written last

Keyed by path, because `tf.train.Checkpoint` silently leaves out Keras layers that are
held in lists. A folder without state.json is unfinished and never read.
"""

import contextlib
import json
import os
import shutil
import sys

from electra_tf.errors import InputError

PREFIX = "variables"
STATE = "state.json"
STEP = "global_step"


class DamagedCheckpoint(InputError):
    """A checkpoint's files can't be read, whatever the model."""


class Checkpoints:
    """The checkpoints of one model folder.

    Args:
        folder: where they are kept
        variables: {name: Keras or tf variable}, weights and optimizer slots
        keep: how many of the latest to keep; the best is kept beside them
    """

    def __init__(self, folder, variables, keep=5):
        self.folder = folder
        self.variables = variables
        self.keep = keep

    def save(self, step, state):
        """Writes the checkpoint of `step` and removes the oldest beyond `keep`.

        Checkpoints of later steps go too: `restore_latest` found them damaged, and
        they would be counted among the latest.
        """
        path = write(
            os.path.join(self.folder, step_name(step)), self.values(), step, state
        )
        names = finished(self.folder)
        end = names.index(step_name(step)) + 1
        for old in names[: max(0, end - self.keep)] + names[end:]:
            remove(os.path.join(self.folder, old))
        return path

    def save_best(self, step, state):
        """Writes the best checkpoint so far, then removes the one it replaces."""
        folder = os.path.join(self.folder, "best")
        path = write(os.path.join(folder, step_name(step)), self.values(), step, state)
        for old in finished(folder):
            if old != step_name(step):
                remove(os.path.join(folder, old))
        return path

    def values(self):
        return {name: variable.numpy() for name, variable in self.variables.items()}

    def restore_latest(self):
        """Restores the latest checkpoint that can be read.

        Returns: its state, or None where there is no checkpoint.
        """
        names = finished(self.folder)
        for name in reversed(names):
            path = os.path.join(self.folder, name)
            try:
                state = read_state(path)
                restore(path, self.variables)
                return state
            except DamagedCheckpoint as error:
                print(f"warning: {error}: trying the one before", file=sys.stderr)
        if names:
            raise InputError(
                f"none of the {len(names)} checkpoints in {self.folder} can be read"
            )
        return None

    def best_state(self):
        """State of the best checkpoint; empty where there is none to be read."""
        folder = os.path.join(self.folder, "best")
        for name in reversed(finished(folder)):
            try:
                return read_state(os.path.join(folder, name))
            except DamagedCheckpoint as error:
                print(f"warning: {error}", file=sys.stderr)
        return {}


def step_name(step):
    return f"step_{step:08d}"


def step_name_of(state):
    """The name that a checkpoint with this state has; None if its step is no step."""
    step = state.get("step")
    return step_name(step) if type(step) is int and step >= 0 else None


def finished(folder):
    """Names of the complete checkpoints in a folder, oldest first."""
    import tensorflow as tf

    if not tf.io.gfile.isdir(folder):
        return []
    names = [name.rstrip("/") for name in tf.io.gfile.listdir(folder)]
    return sorted(
        (
            name
            for name in names
            if name.startswith("step_")
            and name[5:].isdigit()
            and tf.io.gfile.exists(os.path.join(folder, name, STATE))
        ),
        key=lambda name: int(name[5:]),
    )


def find_checkpoint(folder):
    """The best checkpoint below a folder, else the latest, else an error."""
    for place in (os.path.join(folder, "best"), folder):
        names = finished(place)
        if names:
            return os.path.join(place, names[-1])
    raise InputError(f"no checkpoint in {folder}: train the model first")


def write(path, values, step, state):
    """Writes one checkpoint under a temporary name and gives it its own."""
    import numpy as np
    import tensorflow as tf

    values = values | {STEP: np.int64(step)}
    remote = "://" in path
    temporary = path if remote else path + ".unfinished"
    remove(temporary)
    try:
        tf.io.gfile.makedirs(temporary)
        names = sorted(values)
        tf.raw_ops.SaveV2(
            prefix=os.path.join(temporary, PREFIX),
            tensor_names=names,
            shape_and_slices=[""] * len(names),
            tensors=[values[name] for name in names],
        )
        with tf.io.gfile.GFile(os.path.join(temporary, STATE), "w") as stream:
            stream.write(json.dumps({"step": step} | state, indent=1))
        if not remote:
            remove(path)
            os.replace(temporary, path)
    except (tf.errors.OpError, OSError) as error:
        remove(temporary)
        raise InputError(
            f"checkpoint {path} can't be written ({first_line(error)}): free some "
            "space or choose another folder; earlier checkpoints are whole"
        ) from None
    return path


def remove(path):
    import tensorflow as tf

    if "://" not in path:
        shutil.rmtree(path, ignore_errors=True)
    elif tf.io.gfile.exists(path):
        tf.io.gfile.rmtree(path)


def read_state(path):
    """What `save` was told of a checkpoint, and its step."""
    import tensorflow as tf

    named = os.path.basename(path.rstrip("/"))
    with _reading(path):
        with tf.io.gfile.GFile(os.path.join(path, STATE)) as stream:
            state = json.loads(stream.read())
        if not isinstance(state, dict) or step_name_of(state) != named:
            raise ValueError(f"{STATE} is not of {named}")
    return state


def restore(path, variables):
    """Assigns every variable from a checkpoint, all or nothing.

    Raises:
        InputError: a variable is missing or has another shape.
        DamagedCheckpoint: its files can't be read.
    """
    import tensorflow as tf

    with _reading(path):
        reader = tf.train.load_checkpoint(os.path.join(path, PREFIX))
        shapes = reader.get_variable_to_shape_map()
    missing = sorted(set(variables) - set(shapes))
    if missing:
        raise InputError(
            f"checkpoint {path} lacks {len(missing)} variables, {missing[0]!r} among "
            "them: it is of another model"
        )
    for name, variable in variables.items():
        if list(variable.shape) != list(shapes[name]):
            raise InputError(
                f"checkpoint {path}: {name} has shape {shapes[name]}, the model's is "
                f"{list(variable.shape)}"
            )
    with _reading(path):
        values = {name: reader.get_tensor(name) for name in variables}
        step = int(reader.get_tensor(STEP))
        name = os.path.basename(path.rstrip("/"))
        if name.startswith("step_") and name != step_name(step):
            raise ValueError(f"its variables are those of step {step}")
    for name, variable in variables.items():
        variable.assign(values[name])


@contextlib.contextmanager
def _reading(path):
    """Names the checkpoint whose files turn out to be damaged or incomplete."""
    import tensorflow as tf

    try:
        yield
    # TensorFlow's reader raises IndexError where a file is shorter than it should be.
    except (tf.errors.OpError, IndexError, ValueError, RecursionError) as error:
        raise DamagedCheckpoint(
            f"checkpoint {path} is damaged ({first_line(error)})"
        ) from None


def first_line(error):
    """An error's first line, without TensorFlow's names of operations in braces."""
    lines = str(error).split("}} ")[-1].strip().splitlines()
    return lines[0] if lines else repr(error)
