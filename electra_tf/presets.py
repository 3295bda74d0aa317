"""The sizes: what choosing one decides. Data only; `config` reads them."""

# The paper's Table 6, and two sizes of ours: `tiny` for the quickstart, and
# `small_plus_plus`, the "small" that was released in 2020 (long inputs, long training,
# a generator as large as the discriminator).
ARCHITECTURES = {
    "tiny": dict(
        hidden_size=128,
        num_hidden_layers=2,
        num_attention_heads=8,
        intermediate_size=512,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        initializer_range=0.1,
    ),
    "small": dict(
        hidden_size=256,
        num_hidden_layers=12,
        num_attention_heads=4,
        intermediate_size=1024,
    ),
    "base": dict(
        hidden_size=768,
        num_hidden_layers=12,
        num_attention_heads=12,
        intermediate_size=3072,
    ),
    "large": dict(
        hidden_size=1024,
        num_hidden_layers=24,
        num_attention_heads=16,
        intermediate_size=4096,
    ),
}
ARCHITECTURES["small_plus_plus"] = ARCHITECTURES["small"]

SIZES = {
    "tiny": dict(
        embedding_size=128, generator_hidden_size=0.5, temperature=2.0,
        max_seq_length=64, learning_rate=1e-3, num_warmup_steps=200,
        train_batch_size=32, eval_batch_size=32, num_train_steps=1600,
        save_checkpoints_steps=400, iterations_per_loop=100, eval_every_steps=400,
    ),
    "small": dict(
        embedding_size=128, generator_hidden_size=0.25, max_seq_length=128,
        learning_rate=5e-4, train_batch_size=128, num_train_steps=1_000_000,
    ),
    "small_plus_plus": dict(
        embedding_size=128, generator_hidden_size=1.0, max_seq_length=512,
        learning_rate=5e-4, train_batch_size=128, num_train_steps=4_000_000,
    ),
    "base": dict(
        generator_hidden_size=1 / 3, max_seq_length=512,
        learning_rate=2e-4, train_batch_size=256, num_train_steps=766_000,
    ),
    "large": dict(
        generator_hidden_size=0.25, max_seq_length=512,
        mask_prob=0.25, learning_rate=2e-4, train_batch_size=2048,
        num_train_steps=400_000,
    ),
}  # fmt: skip

# What the original's model_size sets: only the width of small's embeddings.
ORIGINAL_SIZES = {"small": dict(embedding_size=128), "base": {}, "large": {}}

DEBUG = dict(
    train_batch_size=8, num_train_steps=20, eval_batch_size=4, iterations_per_loop=1,
    num_eval_steps=2,
)  # fmt: skip
