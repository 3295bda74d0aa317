"""Finds the text files of a corpus and reads them line by line in bounded memory."""

import glob
import os
import re

from electra_tf.errors import InputError

CHUNK_BYTES = 1 << 20

# Names with one of these in them are patterns; anything else is one path.
_PATTERN = re.compile(r"[*?\[]")


def list_text_files(corpus_dir_or_glob):
    """Returns the sorted paths of a corpus: a directory, a file or a glob pattern.

    A directory stands for all the files in it and below it, except hidden ones
    (the original read only the files directly inside).

    Raises:
        InputError: nothing is there, or what is there holds no file.
    """
    corpus = os.fspath(corpus_dir_or_glob)
    if not corpus:
        raise InputError("the corpus is '': give a directory, a file or a glob pattern")
    if "://" in corpus:
        return _list_remote_files(corpus)
    if os.path.isdir(corpus):
        files = _files_below(corpus)
        if not files:
            raise InputError(
                f"the corpus directory {corpus!r} holds no file: put text files in it"
            )
        return files
    if os.path.exists(corpus):
        return [corpus]
    if not _PATTERN.search(corpus):
        raise InputError(
            f"the corpus {corpus!r} does not exist: give a directory, a file or a "
            "glob pattern"
        )
    files = sorted(f for f in glob.glob(corpus, recursive=True) if os.path.isfile(f))
    if not files:
        raise InputError(
            f"no file matches the corpus pattern {corpus!r}: check the path, and "
            "quote the pattern so that the shell leaves it alone"
        )
    return files


def read_lines(path, on_error=None, chunk_bytes=CHUNK_BYTES, on_read=None):
    """Yields the lines of a UTF-8 file without their "\\n", otherwise as they are.

    A line longer than `chunk_bytes` comes in several pieces, cut at white space
    where there is any, so that a file without line ends needs no more memory than
    one with them. Such a line never gives a blank piece, which would read as the
    end of a document.

    Args:
        path: the file, local or of a remote file system ("gs://...").
        on_error: called as `on_error(path, line_number)` once for each line that
            isn't valid UTF-8; its bad bytes are read as U+FFFD.
        chunk_bytes: the longest piece, in bytes of the file; at least 8.
        on_read: called as `on_read(number_of_bytes)` now and then, for progress.
    """
    number, pending, unreported = 1, b"", 0
    is_flawed = has_yielded = False
    with open_binary(path) as stream:
        while True:
            data = stream.readline(chunk_bytes - len(pending))
            unreported += len(data)
            if on_read and (unreported >= 1 << 18 or not data):
                on_read(unreported)
                unreported = 0
            data = pending + data
            pending = b""
            if not data:
                return
            # Less than was asked for and no line end: the end of the file.
            ended = data.endswith(b"\n") or len(data) < chunk_bytes
            if not ended:
                data, pending = _cut(data)
            text, is_bad = _decode(data.removesuffix(b"\n"))
            if is_bad and not is_flawed and on_error:
                on_error(path, number)
            if text.strip() or (ended and not has_yielded):
                yield text
                has_yielded = True
            is_flawed = is_flawed or is_bad
            if ended:
                number += 1
                is_flawed = has_yielded = False


def open_binary(path):
    """Opens a file for reading bytes; TensorFlow only for remote file systems."""
    if "://" not in os.fspath(path):
        return open(path, "rb", buffering=1 << 18)
    import tensorflow as tf

    return _RemoteLines(tf.io.gfile.GFile(os.fspath(path), "rb"))


def _cut(data):
    """Splits bytes after the last white space, else before the last character."""
    at = max(data.rfind(b" "), data.rfind(b"\t")) + 1
    if at == 0:
        at = len(data) - 1
        # A character has up to four bytes; those after the first are 10xxxxxx.
        while at > len(data) - 4 and data[at] & 0xC0 == 0x80:
            at -= 1
    return data[:at], data[at:]


def _decode(data):
    try:
        return data.decode("utf-8"), False
    except UnicodeDecodeError:
        return data.decode("utf-8", errors="replace"), True


def _files_below(folder):
    files = []
    for directory, names, leaves in os.walk(folder):
        names[:] = sorted(n for n in names if not n.startswith("."))
        paths = (os.path.join(directory, n) for n in leaves if not n.startswith("."))
        files.extend(path for path in paths if os.path.isfile(path))
    return sorted(files)


def _list_remote_files(corpus):
    import tensorflow as tf

    if tf.io.gfile.isdir(corpus):
        walked = tf.io.gfile.walk(corpus)
        files = [os.path.join(d, name) for d, _, leaves in walked for name in leaves]
        files = [f for f in files if "/." not in f[len(corpus.rstrip("/")) :]]
    else:
        files = [f for f in tf.io.gfile.glob(corpus) if not tf.io.gfile.isdir(f)]
    if not files:
        raise InputError(f"no file is found in the corpus {corpus!r}: check the path")
    return sorted(files)


class _RemoteLines:
    """A GFile whose `readline` takes a limit, as Python's own files do."""

    def __init__(self, stream):
        self._stream = stream
        self._buffer = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._stream.close()

    def readline(self, limit):
        while b"\n" not in self._buffer and len(self._buffer) < limit:
            data = self._stream.read(1 << 18)
            if not data:
                break
            self._buffer += data
        end = self._buffer.find(b"\n", 0, limit) + 1 or limit
        line, self._buffer = self._buffer[:end], self._buffer[end:]
        return line
