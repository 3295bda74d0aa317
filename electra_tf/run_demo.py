"""Shows which tokens of a sentence a discriminator takes for replaced.

    python -m electra_tf.run_demo --model_dir=DATA/models/NAME --text="The cat ..."

Without --text it swaps a random word in held-out sentences and shows a verdict that the
discriminator gets right and one that it gets wrong.
"""

from absl import flags

from electra_tf.command_line import alias_with_hyphens, import_tensorflow, run
from electra_tf.errors import InputError

FLAGS = flags.FLAGS


def define_flags():
    flags.DEFINE_string("model_dir", None, "Folder of a model of run_pretraining.")
    flags.DEFINE_string("text", None, "A sentence of yours.")
    flags.DEFINE_string(
        "checkpoint", None, "Folder of one checkpoint; default: the best, else latest."
    )
    flags.DEFINE_integer("seed", 1, "Seed of the swaps.")
    alias_with_hyphens("model_dir")


def main():
    if not FLAGS.model_dir:
        raise InputError("--model_dir is missing")
    if FLAGS.seed < 0:
        raise InputError(f"--seed must be 0 or more, got {FLAGS.seed}")

    import_tensorflow()
    from electra_tf import demo
    from electra_tf.data.pipeline import open_shards
    from electra_tf.pretrained import load_objective

    objective, config, tokenizer = load_objective(FLAGS.model_dir, FLAGS.checkpoint)
    if not hasattr(objective, "discriminator"):
        raise InputError(f"{FLAGS.model_dir} has no discriminator (a masked LM)")
    if FLAGS.text is not None:
        ids = tokenizer.encode(FLAGS.text)
        demo.check_length(ids, config)
        probs = demo.probabilities(objective, ids, tokenizer.vocabulary)
        print("probability that each token was replaced:")
        print(demo.show(tokenizer, ids, probs))
        return 0
    shards = open_shards(config.eval_tfrecords, config.max_seq_length)
    results = demo.swaps(objective, config, tokenizer, shards, seed=FLAGS.seed)
    if not results:
        raise InputError(f"{config.eval_tfrecords}: no sentence with a word to swap")
    verdicts = zip(("right", "wrong"), demo.right_and_wrong(results))
    for title, result in verdicts:
        if result is None:
            print(f"\nno verdict was {title}")
            continue
        ids, place, original, probs = result
        token = tokenizer.vocabulary.tokens
        print(f"\n{title}: {token[original]!r} became {token[ids[place]]!r}")
        print(demo.show(tokenizer, ids, probs, place))
    print(f"\n{demo.summary(results)}")
    return 0


def entry_point():
    define_flags()
    run(main)


if __name__ == "__main__":
    entry_point()
