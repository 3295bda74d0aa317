"""Draws the curves of a run from its TensorBoard logs as a PNG.

python -m electra_tf.run_plot --model_dir=DATA/models/NAME --output=curve.png
"""

import io
import os

from absl import flags

from electra_tf.command_line import alias_with_hyphens, import_tensorflow, run
from electra_tf.errors import InputError
from electra_tf.files import write_bytes

FLAGS = flags.FLAGS

# A panel each: title and the scalars in it, of training and of evaluation.
PANELS = (
    ("total loss", ("losses/loss", "metrics/loss")),
    ("masked LM loss", ("losses/mlm", "metrics/masked_lm_loss")),
    ("replaced token detection loss", ("losses/rtd", "metrics/disc_loss")),
    ("AUC of the discriminator", ("metrics/disc_auc",)),
    ("masked LM accuracy", ("metrics/masked_lm_accuracy",)),
    ("learning rate", ("training/learning_rate",)),
)


def define_flags():
    flags.DEFINE_string("model_dir", None, "Folder of a model of run_pretraining.")
    flags.DEFINE_string("output", None, "PNG to write; default: results/curves.png.")
    alias_with_hyphens("model_dir")


def main():
    if not FLAGS.model_dir:
        raise InputError("--model_dir is missing")
    output = FLAGS.output or os.path.join(FLAGS.model_dir, "results", "curves.png")
    if os.path.exists(output) and not is_png(output):
        raise InputError(f"{output} exists and is no PNG: choose another --output")
    curves = {
        name: read_scalars(os.path.join(FLAGS.model_dir, "logs", name))
        for name in ("train", "eval")
    }
    if not any(curves.values()):
        raise InputError(f"no TensorBoard logs in {FLAGS.model_dir}/logs")
    os.makedirs(os.path.dirname(output) or ".", exist_ok=True)
    draw(curves, output)
    print(f"wrote {output}")
    return 0


def is_png(path):
    if os.path.isdir(path):
        return False
    with open(path, "rb") as stream:
        return stream.read(4) == b"\x89PNG"


def read_scalars(folder):
    """{tag: (steps, values)} of all event files of a folder; resumed runs join."""
    if not os.path.isdir(folder):
        return {}
    tf = import_tensorflow()
    from tensorboard.backend.event_processing.event_accumulator import (
        EventAccumulator,
    )

    accumulator = EventAccumulator(folder, size_guidance={"tensors": 0})
    accumulator.Reload()
    curves = {}
    for tag in accumulator.Tags()["tensors"]:
        points = {}
        for event in accumulator.Tensors(tag):
            value = tf.make_ndarray(event.tensor_proto)
            if value.shape == () and value.dtype.kind == "f":
                points[event.step] = float(value)
        if points:
            steps = sorted(points)
            curves[tag] = (steps, [points[step] for step in steps])
    return curves


def draw(curves, output):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(2, 3, figsize=(13, 7), constrained_layout=True)
    for axis, (title, tags) in zip(axes.flat, PANELS):
        for name, scalars in curves.items():
            for tag in tags:
                if tag in scalars:
                    style = "o-" if name == "eval" else "-"
                    axis.plot(*scalars[tag], style, label=name, markersize=3)
                    break
        axis.set(title=title, xlabel="step")
        axis.grid(alpha=0.3)
        if axis.lines:
            axis.legend()
    image = io.BytesIO()
    figure.savefig(image, format="png", dpi=110)
    pyplot.close(figure)
    write_bytes(output, image.getvalue())


def entry_point():
    define_flags()
    run(main)


if __name__ == "__main__":
    entry_point()
