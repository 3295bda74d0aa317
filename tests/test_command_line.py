"""How every command answers --help and bad flags: by subprocess, as a user does."""

import os
import pathlib
import resource
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parent.parent
COMMANDS = sorted(
    path.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".")
    for path in [
        *ROOT.glob("electra_tf/run_*.py"),
        *ROOT.glob("tfrecords_tools/[!_]*.py"),
    ]
)

# Runs a command as `python -m` does and says what of the heavy packages came along.
RUN_AND_TELL = """
import runpy, sys
module, *arguments = sys.argv[1:]
sys.argv = [module, *arguments]
try:
    runpy.run_module(module, run_name="__main__", alter_sys=True)
finally:
    heavy = {"tensorflow", "keras", "keras_nlp", "numpy"} & set(sys.modules)
    print("imported:", sorted(heavy), file=sys.stderr)
"""

SCRIPT = """
import sys
from electra_tf import run_pretraining
sys.exit(run_pretraining.entry_point())
"""


def python(*arguments, **options):
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        capture_output=True, text=True, env=environment, timeout=60, **options,
    )  # fmt: skip


def cpu_seconds_of_children():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def pretrain(*arguments):
    return python("-m", "electra_tf.run_pretraining", *arguments)


def one_error_line(done):
    assert done.returncode == 1, done
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: ")
    return line


def test_the_commands_are_found():
    assert "electra_tf.run_pretraining" in COMMANDS
    assert "tfrecords_tools.build_pretraining_dataset" in COMMANDS


@pytest.mark.parametrize("command", COMMANDS)
def test_help_answers_without_importing_tensorflow(command):
    start = cpu_seconds_of_children()
    done = python("-c", RUN_AND_TELL, command, "--help")
    seconds = cpu_seconds_of_children() - start
    assert done.returncode == 0, done.stderr
    assert done.stderr == "imported: []\n"
    assert "flags:" in done.stdout and "--" in done.stdout
    assert seconds < 1  # about 0.2; TensorFlow alone takes 4


def test_help_of_an_installed_script_shows_docstring_and_flags(tmp_path):
    script = tmp_path / "electra-pretrain"  # what pip writes for [project.scripts]
    script.write_text(SCRIPT)
    installed = python(script, "--help")
    by_module = pretrain("--help")
    assert installed.returncode == 0
    assert "Pre-trains ELECTRA." in installed.stdout
    for flag in ("--data_dir:", "--hparams:", "--[no]require_gpu:"):
        assert flag in installed.stdout and flag in by_module.stdout
    assert "--data-dir" not in installed.stdout  # one spelling of each is enough


def test_help_into_a_closed_pipe_is_quiet():
    reader, writer = os.pipe()
    os.close(reader)  # as `head` does, only sooner
    try:
        done = subprocess.run(
            [sys.executable, "-m", "electra_tf.run_pretraining", "--help"],
            stdout=writer, stderr=subprocess.PIPE, text=True, cwd=ROOT, timeout=60,
        )  # fmt: skip
    finally:
        os.close(writer)
    assert done.stderr == ""


def test_output_into_a_closed_pipe_is_quiet(tmp_path):
    reader, writer = os.pipe()
    os.close(reader)
    script = tmp_path / "talk.py"
    script.write_text(
        "from electra_tf.command_line import run\n"
        "run(lambda: [print('x' * 100, flush=True) for _ in range(100)])\n"
    )
    try:
        done = subprocess.run(
            [sys.executable, str(script)], stdout=writer, stderr=subprocess.PIPE,
            text=True, env=os.environ | {"PYTHONPATH": str(ROOT)}, timeout=60,
        )  # fmt: skip
    finally:
        os.close(writer)
    assert done.stderr == ""


def test_a_left_over_argument_ends_the_run_in_one_line():
    # `--require_gpu false` would otherwise mean true.
    line = one_error_line(
        pretrain("--data_dir=x", "--model_name=m", "--require_gpu", "false")
    )
    assert "'false'" in line and "--noname" in line


def test_an_unknown_flag_names_the_nearest():
    line = one_error_line(pretrain("--data_dirr=x"))
    assert "'data_dirr'" in line and "data_dir" in line and "--help" in line


def test_a_flag_of_the_wrong_type_or_without_its_value_is_named():
    assert "--seed=x" in one_error_line(pretrain("--seed=x"))
    assert "--data_dir" in one_error_line(pretrain("--data_dir"))


def test_a_missing_flag_and_a_wrong_hyper_parameter_end_in_one_line():
    assert "--model_name is missing" in one_error_line(pretrain("--data_dir=x"))
    hparams = '--hparams={"learning_rte": 1}'
    line = one_error_line(pretrain("--data_dir=x", "--model_name=m", hparams))
    assert "'learning_rate'" in line


def test_hyphens_do_as_well_as_underscores():
    # It gets as far as the name, which it was given.
    line = one_error_line(pretrain("--data-dir=x", "--model-name=a/b"))
    assert "'a/b'" in line


def test_a_switch_is_turned_off_in_both_spellings():
    script = (
        "from absl import flags\n"
        "from electra_tf import command_line\n"
        "flags.DEFINE_bool('do_lower_case', True, '')\n"
        "command_line.alias_with_hyphens('do_lower_case')\n"
        "command_line.run(lambda: print(flags.FLAGS.do_lower_case))\n"
    )
    for argument, value in {
        "--do_lower_case": "True",
        "--do-lower-case": "True",
        "--nodo_lower_case": "False",
        "--nodo-lower-case": "False",
        "--do-lower-case=false": "False",
    }.items():
        done = python("-c", script, argument)
        assert done.stdout == f"{value}\n", (argument, done)


def test_input_and_system_errors_are_one_line_and_other_errors_are_not_hidden():
    def run(body):
        return python(
            "-c",
            "from electra_tf import command_line\n"
            "from electra_tf.errors import InputError\n"
            f"def main():\n    {body}\n"
            "command_line.run(main)\n",
        )

    assert (
        one_error_line(run("raise InputError('two\\n  lines')")) == "error: two lines"
    )
    assert "/no/such" in one_error_line(run("open('/no/such')"))
    bug = run("raise ZeroDivisionError('ours')")
    assert bug.returncode == 1 and "Traceback" in bug.stderr
    assert run("raise KeyboardInterrupt").returncode == 130
    assert run("return 0").returncode == 0
