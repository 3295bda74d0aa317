"""One update: divide by the global weight, add up, clip, apply."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from electra_tf.training import step
from electra_tf.training.optimizer import AdamWeightDecay


class Linear:
    """An objective whose loss is the sum of p * x, so that its gradient is x."""

    def __init__(self, *, weight=1.0, loss_weight=1.0):
        self.p = keras.Variable([1.0, 2.0], name="kernel")
        self.unused = keras.Variable([5.0], name="unused")
        self.trainable_variables = [self.p, self.unused]
        self.weight = weight
        self.loss_weights = {"linear": loss_weight}
        self.calls = []

    def outputs(self, batch, *, training, step):
        self.calls.append((training, int(step)))
        return {"total": tf.reduce_sum(self.p.value * batch)}

    def losses_of(self, outputs):
        weight = None if self.weight is None else tf.constant(self.weight)
        return {"linear": (outputs["total"], weight)}

    def metrics_of(self, outputs):
        return {
            "mean": (outputs["total"], tf.constant(2.0)),
            "histogram": (tf.ones([3]), tf.ones([3])),
        }


class Recorder:
    """Stands for an optimizer; keeps what it is asked to apply."""

    def __init__(self, iterations=0):
        self.iterations = tf.Variable(iterations, dtype=tf.int64)

    def apply(self, gradients, variables):
        self.applied = [np.asarray(g) for g in gradients]


def update(objective, batch, iterations=0):
    optimizer = Recorder(iterations)
    report = step.train_step(objective, optimizer, tf.constant(batch))
    return optimizer.applied, report


def test_a_gradient_longer_than_1_is_scaled_to_1_before_it_is_applied():
    (applied, _), report = update(Linear(), [3.0, 4.0])
    np.testing.assert_allclose(applied, [0.6, 0.8], rtol=1e-5)
    assert float(report["grad_norm"]) == pytest.approx(5, rel=1e-5)  # before clipping


def test_a_gradient_of_at_most_1_is_applied_as_it_is():
    (applied, _), report = update(Linear(), [0.3, 0.4])
    np.testing.assert_allclose(applied, [0.3, 0.4], rtol=1e-5)
    assert float(report["grad_norm"]) == pytest.approx(0.5, rel=1e-5)


def test_the_total_is_divided_by_its_weight_and_multiplied_with_the_loss_weight():
    (applied, _), _ = update(Linear(weight=8.0, loss_weight=2.0), [0.4, 0.8])
    np.testing.assert_allclose(applied, [0.1, 0.2], rtol=1e-5)


def test_a_loss_whose_weight_is_none_is_a_plain_sum():
    (applied, _), _ = update(Linear(weight=None), [0.4, 0.8])
    np.testing.assert_allclose(applied, [0.4, 0.8], rtol=1e-6)


def test_a_variable_without_a_gradient_gets_zeros():
    (_, unused), _ = update(Linear(), [3.0, 4.0])
    np.testing.assert_array_equal(unused, [0.0])


def test_a_batch_with_nothing_to_predict_gives_zeros_and_not_nan():
    (applied, _), report = update(Linear(weight=0.0), [0.0, 0.0])
    np.testing.assert_array_equal(applied, [0.0, 0.0])
    assert float(report["grad_norm"]) == 0


def test_the_gradient_of_a_row_read_twice_is_added_up_before_the_norm_is_taken():
    class Gather(Linear):
        def outputs(self, batch, *, training, step):
            return {"total": tf.reduce_sum(tf.gather(self.p.value, batch))}

    (applied, _), report = update(Gather(), [1, 1, 1])
    np.testing.assert_allclose(applied, [0.0, 1.0], rtol=1e-5)
    assert float(report["grad_norm"]) == pytest.approx(3, rel=1e-5)  # not sqrt(3)


def test_the_loss_is_the_weighted_sum_of_means():
    losses = {
        "mlm": (tf.constant(6.0), tf.constant(2.0)),
        "rtd": (tf.constant(5.0), tf.constant(10.0)),
        "sum": (tf.constant(7.0), None),
    }
    weights = step.global_weights(losses)
    assert set(weights) == {"mlm", "rtd"}
    loss = step.total_loss(losses, {"mlm": 1.0, "rtd": 50.0, "sum": 2.0}, weights)
    assert float(loss) == pytest.approx(3 + 25 + 14, rel=1e-5)


def test_a_step_trains_at_the_number_of_updates_made():
    objective = Linear()
    update(objective, [3.0, 4.0], iterations=17)
    assert objective.calls == [(True, 17)]


def test_evaluation_neither_trains_nor_drops_out():
    objective = Linear()
    report = step.eval_step(objective, tf.constant([3.0, 4.0]), step=5)
    assert objective.calls == [(False, 5)]
    assert float(report["losses"]["linear"][0]) == 11
    np.testing.assert_array_equal(objective.p, [1.0, 2.0])


def test_a_step_reports_this_batch_as_sums_and_weights():
    _, report = update(Linear(weight=8.0), [3.0, 4.0])
    total, weight = report["losses"]["linear"]
    assert (float(total), float(weight)) == (11, 8)
    shown = step.scalars(Linear(), report)
    assert set(shown) == {"loss", "mean", "grad_norm"}  # a histogram is no number
    assert float(shown["loss"]) == pytest.approx(11 / 8, rel=1e-5)
    assert float(shown["mean"]) == pytest.approx(11 / 2, rel=1e-5)


def test_a_step_with_our_optimizer_equals_a_computation_by_hand():
    objective = Linear()
    optimizer = AdamWeightDecay(0.1)
    optimizer.build(objective.trainable_variables)
    graph = tf.function(
        lambda batch: step.train_step(Graph(objective), optimizer, batch)["grad_norm"]
    )
    p, m, v, unused = np.array([1.0, 2.0]), 0, 0, 5.0
    for batch in ([3.0, 4.0], [0.3, 0.4], [-6.0, 8.0]):
        graph(tf.constant(batch))
        g = np.array(batch) / max(1, np.linalg.norm(batch))
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
        p = p - 0.1 * (m / (np.sqrt(v) + 1e-6) + 0.01 * p)
        unused -= 0.1 * 0.01 * unused  # no gradient, yet decayed
    np.testing.assert_allclose(objective.p, p, rtol=1e-5)
    np.testing.assert_allclose(objective.unused, [unused], rtol=1e-6)


class Graph(Linear):
    """The same objective inside a tf.function, where the step is no number yet."""

    def __init__(self, objective):
        self.__dict__.update(objective.__dict__)

    def outputs(self, batch, *, training, step):
        return {"total": tf.reduce_sum(self.p.value * batch)}
