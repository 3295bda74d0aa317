"""Random numbers that are a function of (seed, step, global row, column) alone.

Threefry-2x32 with 20 rounds (Salmon et al., 2011, "Parallel random numbers: as easy as
1, 2, 3"), the generator that JAX uses, in plain integer operations. A row of the global
batch gets the same numbers on whatever replica, device or micro-batch it lands, which
TensorFlow's own stateless generators, keyed by the whole tensor's shape, can't give.
"""

import tensorflow as tf

ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))

# What the numbers are drawn for: independent streams of one step.
MASKED_POSITIONS, KEEP_OR_MASK, SAMPLED_IDS, UNIFORM_IDS = range(4)


def threefry(key, counter):
    """Encrypts `counter` with `key`: two pairs of uint32 tensors in, one pair out."""
    key = (*key, key[0] ^ key[1] ^ tf.constant(0x1BD11BDA, tf.uint32))
    x, y = counter[0] + key[0], counter[1] + key[1]
    for i in range(5):
        for rotation in ROTATIONS[i % 2]:
            x += y
            left = tf.bitwise.left_shift(y, tf.constant(rotation, tf.uint32))
            right = tf.bitwise.right_shift(y, tf.constant(32 - rotation, tf.uint32))
            y = (left | right) ^ x
        x += key[(i + 1) % 3]
        y += key[(i + 2) % 3] + tf.constant(i + 1, tf.uint32)
    return x, y


def uniform(seed, step, stream, rows, columns):
    """Draws float32 numbers from the open interval (0, 1).

    Args:
        seed, step: integers (Python or scalar tensors)
        stream: which of the independent streams of this step
    Shapes:
        rows: int [batch], each example's row in the global batch
        returns: float32 [batch, columns]
    """
    key = (_uint32(seed), _uint32(step))
    row = _uint32(rows)[:, None] + tf.zeros([1, columns], tf.uint32)
    column = _uint32(tf.range(columns) + (stream << 24))[None] + tf.zeros_like(row)
    bits, _ = threefry(key, (row, column))
    # 23 bits and a half: never 0, never 1, every value exact in float32.
    bits = tf.cast(tf.bitwise.right_shift(bits, tf.constant(9, tf.uint32)), tf.float32)
    return (bits + 0.5) * tf.constant(2.0**-23, tf.float32)


def _uint32(x):
    return tf.cast(tf.convert_to_tensor(x), tf.uint32)
