"""How every command of the package starts and how it reports bad input."""

import errno
import os
import sys
import tempfile

from absl import app, flags, logging

from electra_tf.errors import InputError

PACKAGES = ("electra_tf", "tfrecords_tools")


def run(main):
    """Parses the flags and calls `main()`; bad input ends in one line, status 1."""
    _describe_in_help(main)
    try:
        try:
            app.run(lambda argv: _guarded(main, argv[1:]), flags_parser=_parse)
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()  # where a closed pipe (`| head`) shows at the latest
    except BrokenPipeError:
        # Python flushes once more on its way out.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)


def _describe_in_help(main):
    """Makes --help show what `python -m` shows when a console script is started.

    absl looks for docstring and flags in the main module, there the script itself.
    """
    started = sys.modules["__main__"]
    started.__doc__ = started.__doc__ or sys.modules[main.__module__].__doc__
    for module, defined in flags.FLAGS.flags_by_module_dict().items():
        # The aliases, which this module defines, would double the list.
        if module.split(".")[0] in PACKAGES and module != __name__:
            for flag in defined:
                flags.FLAGS.register_key_flag_for_module(sys.argv[0], flag)


def _parse(argv):
    try:
        return flags.FLAGS(argv)
    except flags.Error as error:
        sys.exit(f"error: {one_line(error)} (--help lists the flags)")
    except SystemExit:
        sys.exit(0)  # --help was answered, which absl calls a failure


def _guarded(main, left_over):
    try:
        if left_over:
            raise InputError(
                f"unexpected argument {left_over[0]!r}: every option is written as "
                "--name=value (a switch as --name or --noname)"
            )
        return main()
    except BrokenPipeError:
        raise
    except InputError as error:
        print(f"error: {one_line(error)}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except OSError as error:
        # A full or read-only disk, a vanished file: the system's own words.
        advice = ": free some space" if error.errno == errno.ENOSPC else ""
        print(f"error: {one_line(error)}{advice}", file=sys.stderr)
        return 1


def one_line(error):
    return " ".join(str(error).split())


def alias_with_hyphens(*names):
    """Lets `--data-dir` stand for `--data_dir`, as the original's flags did.

    A switch is turned off by `--nodo_lower_case` or `--nodo-lower-case`. The
    original's `--no-lower-case` is a flag of the dataset builder alone.
    """
    for name in names:
        hyphened = name.replace("_", "-")
        if hyphened != name:
            flags.DEFINE_alias(hyphened, name)


def import_tensorflow():
    """Imports TensorFlow without the dozen lines that its libraries print by then.

    They come back if the import fails, or if TF_CPP_MIN_LOG_LEVEL asks for them.
    """
    if os.environ.get("TF_CPP_MIN_LOG_LEVEL") != "3":
        import tensorflow as tf

        return tf
    with tempfile.TemporaryFile() as held_back:
        stderr = os.dup(2)
        os.dup2(held_back.fileno(), 2)
        try:
            import keras  # noqa: F401  (TensorFlow imports it late, and prints again)
            import tensorflow as tf

            tf.config.list_physical_devices()
            tf.get_logger().setLevel("WARNING")
            logging.set_verbosity(logging.WARNING)
        except BaseException:
            held_back.seek(0)
            os.write(stderr, held_back.read())
            raise
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)
    return tf
