"""rate(t) = base * (1 - t / T)^power * min(1, t / warmup), with t from 1."""

import numpy as np
import pytest
import tensorflow as tf

from electra_tf.training.schedule import WarmupDecay, rate


def at(step, **options):
    options = dict(base=1.0, num_train_steps=10, num_warmup_steps=4) | options
    return float(rate(step, **options))


def test_warm_up_multiplies_the_already_decaying_rate():
    assert at(2) == pytest.approx(0.8 * 0.5)
    assert at(4) == pytest.approx(0.6)
    assert at(5) == pytest.approx(0.5)


def test_the_rate_ends_at_0_and_stays_there():
    assert at(10) == at(11) == at(1000) == 0


def test_power_bends_the_decay_and_not_the_warm_up():
    assert at(2, power=2.0) == pytest.approx(0.8**2 * 0.5)
    assert at(5, power=0.5) == pytest.approx(0.5**0.5)


def test_without_warm_up_the_first_update_has_nearly_the_full_rate():
    assert at(1, num_warmup_steps=0) == pytest.approx(0.9)


def test_warm_up_may_end_between_two_steps():
    assert at(1, num_warmup_steps=1.5) == pytest.approx(0.9 / 1.5)
    assert at(2, num_warmup_steps=1.5) == pytest.approx(0.8)


def test_warm_up_longer_than_the_run_never_reaches_the_base():
    assert max(at(t, num_warmup_steps=100) for t in range(11)) == pytest.approx(
        0.5 * 0.05
    )


def test_update_i_from_0_uses_the_rate_of_step_i_plus_1():
    schedule = WarmupDecay(2.0, 10, 4)
    for i in range(12):
        assert float(schedule(i)) == pytest.approx(at(i + 1, base=2.0))
    assert float(schedule(tf.constant(0, tf.int64))) > 0  # the first update does move


def test_the_schedule_in_a_graph_equals_the_eager_one():
    schedule = WarmupDecay(5e-4, 1_000_000, 10_000)
    graph = tf.function(schedule)
    for i in (0, 9_999, 500_000, 999_999):
        np.testing.assert_array_equal(graph(tf.constant(i, tf.int64)), schedule(i))


def test_steps_in_the_millions_are_told_apart():
    schedule = WarmupDecay(5e-4, 4_000_000, 10_000)
    one, next_one = (float(schedule(i)) for i in (3_000_000, 3_000_100))
    assert 0 < one - next_one == pytest.approx(5e-4 * 100 / 4_000_000, rel=0.01)


def test_a_schedule_made_from_its_config_is_the_same():
    schedule = WarmupDecay(2.0, 10, 4, power=2.0)
    again = WarmupDecay.from_config(schedule.get_config())
    assert [float(again(i)) for i in range(12)] == [
        float(schedule(i)) for i in range(12)
    ]
