"""Adam as the original has it: no bias correction, decoupled weight decay.

    m = beta_1 m + (1 - beta_1) g        v = beta_2 v + (1 - beta_2) g^2
    p = p - rate * (m / (sqrt(v) + epsilon) + decay * p)

Gradients arrive summed over the replicas and clipped (`training.step`); Keras would
clip each replica's share and then sum, which is another update.
"""

import re

import keras
import tensorflow as tf

# Rows of (pattern, value); the first pattern found in a variable's path decides. As in
# the original, biases and LayerNorms are not decayed and embeddings are.
NO_DECAY = r"layer_norm|bias"


def weight_decay_rows(weight_decay_rate):
    return ((NO_DECAY, 0.0), (".", weight_decay_rate))


ONE_RATE = ((".", 1.0),)


def first_match(rows, path):
    """The value of the first row whose pattern is found in `path`."""
    for pattern, value in rows:
        if re.search(pattern, path):
            return value
    raise ValueError(f"no row covers the variable {path!r}: {rows}")


class AdamWeightDecay(keras.optimizers.Optimizer):
    """The optimizer of pre-training and fine-tuning.

    Args:
        learning_rate: float or Keras schedule of the number of updates made
        decay_rows, rate_rows: rows of (pattern, value) that must cover every variable:
            its weight decay, and what its learning rate is multiplied with
    """

    def __init__(
        self,
        learning_rate,
        *,
        decay_rows=weight_decay_rows(0.01),
        rate_rows=ONE_RATE,
        beta_1=0.9,
        beta_2=0.999,
        epsilon=1e-6,
        name="adam_weight_decay",
    ):
        super().__init__(learning_rate=learning_rate, name=name)
        self.decay_rows = tuple(decay_rows)
        self.rate_rows = tuple(rate_rows)
        self.beta_1 = beta_1
        self.beta_2 = beta_2
        self.epsilon = epsilon

    def build(self, variables):
        if self.built:
            return
        super().build(variables)
        self.adam_m, self.adam_v = self.add_optimizer_variables(
            variables, ["adam_m", "adam_v"]
        )
        self.decays = [first_match(self.decay_rows, v.path) for v in variables]
        self.rates = [first_match(self.rate_rows, v.path) for v in variables]

    def slots(self, variables):
        """{path/adam_m: variable, path/adam_v: variable} of all trained variables."""
        found = {}
        for variable in variables:
            i = self._get_variable_index(variable)
            found[f"{variable.path}/adam_m"] = self.adam_m[i]
            found[f"{variable.path}/adam_v"] = self.adam_v[i]
        return found

    def update_step(self, gradient, variable, learning_rate):
        i = self._get_variable_index(variable)
        m, v = self.adam_m[i], self.adam_v[i]
        gradient = tf.cast(gradient, variable.dtype)
        next_m = self.beta_1 * m + (1.0 - self.beta_1) * gradient
        next_v = self.beta_2 * v + (1.0 - self.beta_2) * tf.square(gradient)
        update = next_m / (tf.sqrt(next_v) + self.epsilon)
        if self.decays[i]:
            update += self.decays[i] * variable
        rate = tf.cast(learning_rate, variable.dtype) * self.rates[i]
        self.assign_sub(variable, rate * update)
        self.assign(m, next_m)
        self.assign(v, next_v)

    def _all_reduce_sum_gradients(self, grads_and_vars):
        """Keras's hook for reducing; `training.step` has done it."""
        return list(grads_and_vars)

    def get_config(self):
        config = super().get_config()  # holds options of Keras that we do not take
        return {
            "learning_rate": config["learning_rate"],
            "name": config["name"],
            "decay_rows": self.decay_rows,
            "rate_rows": self.rate_rows,
            "beta_1": self.beta_1,
            "beta_2": self.beta_2,
            "epsilon": self.epsilon,
        }
