"""What a run says of its speed, with a clock that the test turns."""

import pytest

from electra_tf.training import progress
from electra_tf.training.progress import Progress, duration, line


@pytest.fixture
def clock(monkeypatch):
    class Clock:
        now = 100.0

    monkeypatch.setattr(progress.time, "perf_counter", lambda: Clock.now)
    return Clock


def test_rates_are_of_the_steps_since_the_last_line(clock):
    run = Progress(step=0, num_steps=100, examples_per_step=8)
    clock.now += 5
    assert run.rates(10) == {
        "steps_per_second": 2.0,
        "examples_per_second": 16.0,
        "input_wait": 0.0,
        "eta": 45.0,  # 90 steps left
    }
    clock.now += 20  # slower now: what was before doesn't count
    assert run.rates(20)["steps_per_second"] == 0.5


def test_a_resumed_run_counts_its_own_steps_only(clock):
    run = Progress(step=900, num_steps=1000, examples_per_step=1)
    clock.now += 10
    found = run.rates(950)
    assert (found["steps_per_second"], found["eta"]) == (5.0, 10.0)


def test_the_share_of_time_spent_waiting_for_input_is_reported(clock):
    run = Progress(step=0, num_steps=10, examples_per_step=1)
    for _ in range(2):
        with run.waiting():
            clock.now += 1
        clock.now += 3
    assert run.rates(2)["input_wait"] == 0.25
    clock.now += 1
    assert run.rates(3)["input_wait"] == 0.0  # of these seconds, not of all


def test_time_of_an_evaluation_is_not_counted_as_training(clock):
    run = Progress(step=0, num_steps=100, examples_per_step=1)
    clock.now += 1000  # evaluation and checkpoint after step 10
    run.restart(10)
    clock.now += 5
    assert run.rates(20)["steps_per_second"] == 2.0


def test_no_step_and_no_time_do_not_divide_by_zero(clock):
    run = Progress(step=0, num_steps=10, examples_per_step=1)
    assert run.rates(0)["eta"] == float("inf")
    assert run.rates(1)["steps_per_second"] > 0


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.4, "0s"),
        (59.9, "59s"),
        (60, "1m00s"),
        (184, "3m04s"),
        (3599.9, "59m59s"),
        (3600, "1h00m"),
        (3720, "1h02m"),
        (360_000, "100h00m"),
        (float("inf"), "?"),
    ],
)
def test_a_duration_is_written_as_people_say_it(seconds, text):
    assert duration(seconds) == text


def test_a_line_holds_step_losses_rates_and_the_time_left():
    rates = {
        "steps_per_second": 2.0,
        "examples_per_second": 256.0,
        "input_wait": 0.015,
        "eta": 184.0,
    }
    assert line(1500, 3000, {"loss": 13.91234, "disc_auc": 0.5}, rates) == (
        "step 1,500/3,000 (50.0%)  loss 13.91  disc_auc 0.5  2.00 steps/s  "
        "256 examples/s  input wait 1.5%  ETA 3m04s"
    )
