"""A folder of shards that appears as a whole, with its manifest, or not at all."""

import collections
import glob
import os

from electra_tf.data import records
from electra_tf.errors import InputError
from electra_tf.files import (
    UNFINISHED,
    file_exists,
    is_folder,
    list_files,
    make_folder,
    remove_file,
    remove_folder,
    replace_file,
)


class RecordsFolder:
    """Deals examples round-robin over the shards of one folder.

    Used as a context: shards are written under temporary names, `finish` and then
    `publish` make them the folder's content, and leaving without that removes them.
    """

    def __init__(self, folder, num_shards, overwrite=False):
        self.folder = os.fspath(folder)
        self.counts = collections.Counter()
        self.entries = []
        self._names = [records.shard_name(i, num_shards) for i in range(num_shards)]
        self._writers = []
        self._made_folder = not is_folder(self.folder)
        if self._finished_files() and not overwrite:
            raise InputError(
                f"{self.folder} already holds records: choose another output folder, "
                "or replace them with --overwrite"
            )

    def path(self, name):
        return os.path.join(self.folder, name)

    def _list(self, pattern):
        return list_files(os.path.join(glob.escape(self.folder), pattern))

    @property
    def shard_paths(self):
        return [self.path(name) for name in self._names]

    def __enter__(self):
        make_folder(self.folder)
        self._remove_unfinished()  # of a build that was killed
        return self

    def __exit__(self, *_):
        for writer in self._writers:
            writer.discard()
        self._remove_unfinished()
        if self._made_folder and not self._list("*"):
            remove_folder(self.folder)

    def add(self, framed, counts):
        """Writes framed records, the next one to the next shard."""
        if not self._writers:
            _allow_open_files(len(self._names))
            self._writers = [records.ShardWriter(path) for path in self.shard_paths]
        for at, record in enumerate(framed, start=self.counts["examples"]):
            self._writers[at % len(self._writers)].write_framed(record)
        self.count(counts)  # the examples among them

    def count(self, counts):
        self.counts.update(counts)

    def finish(self, entries=None):
        """Completes every file; `entries` are of shards that others have written."""
        self.entries = entries or [writer.finish() for writer in self._writers]

    def publish(self, manifest):
        """Puts the finished shards in the place of what the folder held.

        Until the new manifest is there, the old one tells shards that it doesn't know.
        """
        prepared = manifest.prepare(self.folder)  # the last that a full disk can stop
        old = set(self._list(records.SHARD_PATTERN))
        for path in self.shard_paths:
            replace_file(path + UNFINISHED, path)
        # A folder with a manifest is complete.
        replace_file(prepared, self.path(records.MANIFEST_NAME))
        for path in old.difference(self.shard_paths):
            if not path.endswith(UNFINISHED):
                remove_file(path)

    def _finished_files(self):
        """Lists what a build has left here: shards, and a manifest of ours."""
        found = self._list(records.SHARD_PATTERN)
        if self._list(records.MANIFEST_NAME):
            found.append(self.path(records.MANIFEST_NAME))
        return [path for path in found if not path.endswith(UNFINISHED)]

    def _remove_unfinished(self):
        for name in (records.SHARD_PATTERN, records.MANIFEST_NAME):
            for path in self._list(name + UNFINISHED):
                remove_file(path)


def remove_records(folder):
    """Removes what the manifest of a folder lists, and the manifest.

    Returns:
        True where there was a manifest.
    """
    manifest = records.read_manifest(folder)
    if manifest is None:
        return False
    # The manifest last: until then it tells what is missing.
    for name in [*(s["name"] for s in manifest.shards), records.MANIFEST_NAME]:
        path = os.path.join(folder, name)
        if file_exists(path):
            remove_file(path)
    if not list_files(os.path.join(glob.escape(folder), "*")):
        remove_folder(folder)
    return True


def _allow_open_files(number):
    """Raises the limit of open files, commonly 1024, as far as the system lets us."""
    try:
        import resource
    except ImportError:  # not on Windows
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = number + 128
    if soft != resource.RLIM_INFINITY and soft < wanted:
        top = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (top, hard))
