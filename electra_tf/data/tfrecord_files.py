"""TFRecord files, read and written without TensorFlow.

TensorFlow's import takes seconds in every worker process of a builder. A record is
    uint64 length, uint32 masked crc of the length, data, uint32 masked crc of the data
(tensorflow/core/lib/io/record_writer.h).
"""

import hashlib
import os
import struct

from electra_tf.errors import InputError
from electra_tf.files import (
    UNFINISHED,
    file_exists,
    file_size,
    open_file,
    remove_file,
    replace_file,
)


class ShardWriter:
    """Writes a shard under a temporary name; `close` gives it its own.

    Leaving the `with` block by an exception removes the unfinished file.
    """

    def __init__(self, path):
        self.path = os.fspath(path)
        self._temporary = self.path + UNFINISHED
        self._stream = open_file(self._temporary, "wb")
        self._sha256 = hashlib.sha256()
        self.records = self.bytes = 0

    def write(self, data):
        """Appends one serialized example."""
        self.write_framed(frame(data))

    def write_framed(self, framed, records=1):
        """Appends records that `frame` has made."""
        self._stream.write(framed)
        self._sha256.update(framed)
        self.records += records
        self.bytes += len(framed)

    def finish(self):
        """Completes the file, still under its temporary name; returns its entry.

        Returns:
            The shard's entry in the manifest: name, records, bytes, sha256.
        """
        self._stream.close()
        return {
            "name": os.path.basename(self.path),
            "records": self.records,
            "bytes": self.bytes,
            "sha256": self._sha256.hexdigest(),
        }

    def close(self):
        """Completes the file and gives it its own name; returns its entry."""
        entry = self.finish()
        replace_file(self._temporary, self.path)
        return entry

    def discard(self):
        try:
            self._stream.close()
        except OSError:  # a full disk: what was buffered can't be written
            pass
        if file_exists(self._temporary):
            remove_file(self._temporary)

    def __enter__(self):
        return self

    def __exit__(self, error, *_):
        self.discard() if error else self.close()


def frame(data):
    """Returns one TFRecord: length and data, each with its checksum."""
    length = struct.pack("<Q", len(data))
    return b"".join((length, _masked_crc(length), data, _masked_crc(data)))


def _crc_table():
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)  # Castagnoli
        table.append(byte)
    return table


_CRC = _crc_table()
# Two bytes at a time halve the cost, which is a tenth of the building of examples.
_CRC_OF_TWO = [
    _CRC[_CRC[two & 0xFF] & 0xFF ^ two >> 8] ^ _CRC[two & 0xFF] >> 8
    for two in range(1 << 16)
]


def _masked_crc(data):
    crc = 0xFFFFFFFF
    even = len(data) & ~1
    for two in struct.unpack(f"<{even // 2}H", data[:even]):
        crc = _CRC_OF_TWO[(crc ^ two) & 0xFFFF] ^ crc >> 16
    for byte in data[even:]:
        crc = _CRC[(crc ^ byte) & 0xFF] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    masked = ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
    return struct.pack("<I", masked)


def scan_records(path):
    """Yields (offset, length) of the data of every record, reading only the headers.

    Raises:
        InputError: the file ends inside a record, or isn't a TFRecord file.
    """
    size = file_size(path)
    position = 0
    with open_file(path, "rb") as stream:
        while position < size:
            stream.seek(position)
            header = stream.read(12)
            if len(header) == 12 and _masked_crc(header[:8]) != header[8:]:
                raise InputError(
                    f"{path} isn't a TFRecord file or is damaged at byte {position}: "
                    "build it again"
                )
            length = struct.unpack("<Q", header[:8])[0] if len(header) == 12 else 0
            if len(header) < 12 or position + 16 + length > size:
                raise InputError(
                    f"the shard {path} is truncated: it ends inside the record at "
                    f"byte {position} ({size} bytes in all): copy or build it again"
                )
            yield position + 12, length
            position += 16 + length


def count_records(path):
    """Counts the records of a shard by seeking from header to header."""
    return sum(1 for _ in scan_records(path))


def read_records(path):
    """Yields the data of every record of a shard, checked by its checksum."""
    with open_file(path, "rb") as stream:
        for offset, length in scan_records(path):
            stream.seek(offset)
            data = stream.read(length)
            if stream.read(4) != _masked_crc(data):
                raise InputError(
                    f"the shard {path} is damaged: the record at byte {offset - 12} "
                    "has a wrong checksum: copy or build it again"
                )
            yield data
