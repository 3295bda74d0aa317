"""Exports a pre-trained discriminator as a SavedModel for TF Serving.

    python -m electra_tf.run_export --model_dir=DATA/models/NAME --output_dir=SERVING

writes SERVING/1/ with the signature `serving_default`: input_ids, input_mask and
segment_ids in; replaced_probability, logits and sequence_output out.
"""

import os

from absl import flags

from electra_tf.command_line import alias_with_hyphens, import_tensorflow, run
from electra_tf.errors import InputError

FLAGS = flags.FLAGS


def define_flags():
    flags.DEFINE_string("model_dir", None, "Folder of a model of run_pretraining.")
    flags.DEFINE_string("output_dir", None, "Folder to hold the numbered versions.")
    flags.DEFINE_integer("version", 1, "Version to write: a folder of output_dir.")
    flags.DEFINE_string(
        "checkpoint", None, "Folder of one checkpoint; default: the best, else latest."
    )
    alias_with_hyphens("model_dir", "output_dir")


def main():
    for name in ("model_dir", "output_dir"):
        if not FLAGS[name].value:
            raise InputError(f"--{name} is missing")
    if FLAGS.version < 0:
        raise InputError(f"--version must not be negative, got {FLAGS.version}")

    import_tensorflow()
    from electra_tf.export import export_discriminator
    from electra_tf.pretrained import load_objective
    from electra_tf.training.checkpoint import find_checkpoint

    checkpoint = FLAGS.checkpoint or find_checkpoint(
        os.path.join(FLAGS.model_dir, "checkpoints")
    )
    objective, _, tokenizer = load_objective(FLAGS.model_dir, checkpoint)
    target = export_discriminator(objective, tokenizer, FLAGS.output_dir, FLAGS.version)
    print(f"wrote {target} from {checkpoint}")
    return 0


def entry_point():
    define_flags()
    run(main)


if __name__ == "__main__":
    entry_point()
