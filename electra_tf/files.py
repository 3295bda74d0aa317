"""Files and folders of any file system: the one place that opens, renames, removes.

Local paths go through Python, so that tools start at once; paths with "://" (gs:// and
the like) through `tf.io.gfile`.
"""

import glob
import json
import os

from electra_tf.errors import InputError

UNFINISHED = ".unfinished"


def _remote(path):
    if "://" not in os.fspath(path):
        return None
    import tensorflow as tf

    return tf.io.gfile


def open_file(path, mode):
    gfile = _remote(path)
    if gfile:
        return gfile.GFile(path, mode)
    return open(path, mode, encoding=None if "b" in mode else "utf-8")


def file_exists(path):
    gfile = _remote(path)
    return gfile.exists(path) if gfile else os.path.exists(path)


def file_size(path):
    gfile = _remote(path)
    return gfile.stat(path).length if gfile else os.path.getsize(path)


def is_folder(path):
    gfile = _remote(path)
    return gfile.isdir(path) if gfile else os.path.isdir(path)


def remove_file(path):
    gfile = _remote(path)
    gfile.remove(path) if gfile else os.remove(path)


def replace_file(source, target):
    gfile = _remote(target)
    gfile.rename(source, target, True) if gfile else os.replace(source, target)


def list_files(pattern):
    gfile = _remote(pattern)
    return gfile.glob(pattern) if gfile else glob.glob(pattern)


def make_folder(path):
    gfile = _remote(path)
    gfile.makedirs(path) if gfile else os.makedirs(path, exist_ok=True)


def remove_folder(path):
    """Removes an empty folder."""
    gfile = _remote(path)
    gfile.rmtree(path) if gfile else os.rmdir(path)


def read_bytes(path):
    """Reads a whole file; a missing one is an InputError."""
    path = os.fspath(path)
    if is_folder(path):
        raise InputError(f"{path} is not a file")
    if not file_exists(path):
        raise InputError(f"the file {path} does not exist")
    with open_file(path, "rb") as stream:
        return stream.read()


def read_json_object(path):
    """The dict in a JSON file; anything else is an InputError that names the file."""
    try:
        values = json.loads(read_bytes(path))
    except (ValueError, RecursionError) as error:  # no JSON, too deep, no UTF-8
        raise InputError(f"{path} is damaged: {error}") from None
    if not isinstance(values, dict):
        raise InputError(f"{path} is damaged: not a JSON object")
    return values


def write_bytes(path, data):
    """Writes a file in one step: a reader sees the old content or the new."""
    path = os.fspath(path)
    folder = os.path.dirname(path)
    if folder:
        make_folder(folder)
    temporary = path + UNFINISHED
    try:
        with open_file(temporary, "wb") as stream:
            stream.write(data)
        replace_file(temporary, path)
    except BaseException:
        if file_exists(temporary):
            remove_file(temporary)
        raise


def write_text(path, text):
    """`write_bytes` of UTF-8 text."""
    write_bytes(path, text.encode("utf-8"))
