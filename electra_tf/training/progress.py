"""How fast a run goes and when it will be done."""

import time


class Progress:
    """Rates over the steps since the last line, and the time left.

    `waiting()` is a context in which the run waits for input; its share is reported.
    """

    def __init__(self, step, num_steps, examples_per_step):
        self.num_steps = num_steps
        self.examples_per_step = examples_per_step
        self.wait = 0.0
        self.restart(step)

    def restart(self, step):
        self.step, self.start, self.wait = step, time.perf_counter(), 0.0

    def waiting(self):
        return _Stopwatch(self)

    def rates(self, step):
        """Rates since the last call: steps/s, examples/s, input wait, seconds left."""
        seconds = max(time.perf_counter() - self.start, 1e-9)
        rate = (step - self.step) / seconds
        found = {
            "steps_per_second": rate,
            "examples_per_second": rate * self.examples_per_step,
            "input_wait": self.wait / seconds,
            "eta": (self.num_steps - step) / rate if rate else float("inf"),
        }
        self.restart(step)
        return found


class _Stopwatch:
    def __init__(self, progress):
        self.progress = progress

    def __enter__(self):
        self.start = time.perf_counter()

    def __exit__(self, *_):
        self.progress.wait += time.perf_counter() - self.start


def duration(seconds):
    """1h02m, 3m04s or 5s."""
    if seconds == float("inf"):
        return "?"
    seconds = int(seconds)
    if seconds >= 3600:
        return f"{seconds // 3600}h{seconds % 3600 // 60:02d}m"
    if seconds >= 60:
        return f"{seconds // 60}m{seconds % 60:02d}s"
    return f"{seconds}s"


def line(step, num_steps, values, rates):
    """One line of a run's log."""
    numbers = "  ".join(f"{name} {value:.4g}" for name, value in values.items())
    return (
        f"step {step:,}/{num_steps:,} ({100 * step / num_steps:.1f}%)  {numbers}  "
        f"{rates['steps_per_second']:.2f} steps/s  "
        f"{rates['examples_per_second']:.0f} examples/s  "
        f"input wait {100 * rates['input_wait']:.1f}%  ETA {duration(rates['eta'])}"
    )
