"""How every command of the package starts and how it reports bad input."""

import sys

from absl import app, flags

from electra_tf.errors import InputError


def run(main):
    """Parses the flags and calls `main()`; bad input ends in one line, status 1."""
    app.run(lambda argv: _guarded(main, argv[1:]))


def _guarded(main, left_over):
    try:
        if left_over:
            raise InputError(
                f"unexpected argument {left_over[0]!r}: every option is written as "
                "--name=value (a switch as --name or --noname)"
            )
        return main()
    except InputError as error:
        print(f"error: {one_line(error)}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except OSError as error:
        # A full or read-only disk, a vanished file: the system's own words.
        print(f"error: {one_line(error)}", file=sys.stderr)
        return 1


def one_line(error):
    return " ".join(str(error).split())


def alias_with_hyphens(*names):
    """Lets `--data-dir` stand for `--data_dir`, as the original's flags did.

    A switch also gets the original's negation, `--no-lower-case`.
    """
    for name in names:
        hyphened = name.replace("_", "-")
        if hyphened != name:
            flags.DEFINE_alias(hyphened, name)
