"""The one error that a user's input can cause, shown as a single line."""


class InputError(Exception):
    """Says what was wrong, the value received, where, and what to do.

    Command-line programs print it as one line and exit with status 1; see
    `electra_tf.command_line.run`.
    """
