"""`make quickstart`, with fewer steps of training: every other part is the real one."""

import pathlib
import subprocess
import sys

import pytest

REPO = pathlib.Path(__file__).parent.parent


@pytest.mark.slow
def test_the_quickstart_goes_from_text_to_a_verdict_and_can_be_run_again(tmp_path):
    command = [
        sys.executable,
        "-m",
        "electra_tf.run_quickstart",
        f"--data_dir={tmp_path / 'quick start'}",
        '--hparams={"num_train_steps": 60, "save_checkpoints_steps": 60}',
    ]
    first = subprocess.run(command, cwd=REPO, capture_output=True, text=True)
    assert first.returncode == 0, first.stdout + first.stderr
    assert "=== done in" in first.stdout
    assert "loss at step 0" in first.stdout
    assert "always answering the majority" in first.stdout
    assert "swapped words called replaced" in first.stdout
    folder = tmp_path / "quick start"
    assert (folder / "curves.png").read_bytes().startswith(b"\x89PNG")
    assert (folder / "serving" / "tiny" / "1" / "saved_model.pb").exists()
    again = subprocess.run(command, cwd=REPO, capture_output=True, text=True)
    assert again.returncode == 0, again.stdout + again.stderr
    assert again.stdout.count("is there already") == 4
    assert "nothing to train" in again.stdout
