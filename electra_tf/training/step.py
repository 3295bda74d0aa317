"""One update of any objective, on one replica's share of the global batch.

An objective maps a batch to `{name: (total, weight)}`. Here, and only here, totals are
divided by weights: by those of the *global* batch, so that the update does not depend
on the number of replicas. A weight of None means that the loss is a plain sum.
"""

import tensorflow as tf

EPSILON = 1e-6  # the original's guard against a batch with nothing to predict
CLIP_NORM = 1.0


def train_step(objective, optimizer, batch):
    """Updates `objective` on this replica's shard of the global batch.

    Returns this replica's share: {"losses": {name: (total, weight)}, "metrics": the
    same form, "grad_norm": of the global gradient, before clipping}.
    """
    step = tf.convert_to_tensor(optimizer.iterations)
    variables = objective.trainable_variables
    with tf.GradientTape() as tape:
        outputs = objective.outputs(batch, training=True, step=step)
        losses = objective.losses_of(outputs)
        loss = total_loss(losses, objective.loss_weights, global_weights(losses))
    gradients = tape.gradient(loss, [v.value for v in variables])
    gradients = [
        tf.zeros_like(v.value) if g is None else tf.convert_to_tensor(g)
        for g, v in zip(gradients, variables)
    ]
    # Clip what the optimizer will apply: the sum, not one replica's share.
    gradients = sum_over_replicas(gradients)
    norm = tf.linalg.global_norm(gradients)
    gradients = clip(gradients, norm)
    optimizer.apply(gradients, variables)
    return {
        "losses": losses,
        "metrics": objective.metrics_of(outputs),
        "grad_norm": norm,
    }


def eval_step(objective, batch, step=0):
    """Losses and metrics of a batch, without dropout, in the form of `train_step`."""
    outputs = objective.outputs(batch, training=False, step=step)
    return {
        "losses": objective.losses_of(outputs),
        "metrics": objective.metrics_of(outputs),
    }


def global_weights(losses):
    """Sums the weight of every loss over the replicas."""
    weights = {k: w for k, (_, w) in losses.items() if w is not None}
    names = sorted(weights)
    summed = sum_over_replicas([tf.stop_gradient(weights[k]) for k in names])
    return dict(zip(names, summed))


def total_loss(losses, loss_weights, weights):
    """The number to minimise: each total over its global weight, weighted, added."""
    parts = []
    for name, (total, _) in losses.items():
        if name in weights:
            total = total / (weights[name] + EPSILON)
        parts.append(loss_weights[name] * total)
    return tf.add_n(parts)


def clip(gradients, norm):
    """Scales the gradients down to a global norm of at most 1."""
    scale = CLIP_NORM / tf.maximum(norm, CLIP_NORM)
    return [g * tf.cast(scale, g.dtype) for g in gradients]


def sum_over_replicas(tensors):
    """Adds a list of tensors over the replicas; outside a strategy returns it."""
    context = tf.distribute.get_replica_context()
    if context is None or context.num_replicas_in_sync == 1 or not tensors:
        return tensors
    return context.all_reduce(tf.distribute.ReduceOp.SUM, tensors)


def scalars(objective, report):
    """What `fit` prints: the losses and the metrics that are plain ratios."""
    losses = report["losses"]
    values = {
        "loss": total_loss(losses, objective.loss_weights, global_weights(losses))
    }
    for name, (total, weight) in report["metrics"].items():
        if total.shape.rank == 0:
            values[name] = total / (weight + EPSILON)
    if "grad_norm" in report:
        values["grad_norm"] = report["grad_norm"]
    return values
