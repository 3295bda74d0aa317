"""tf.train.Example messages with int64 lists, encoded and decoded without TensorFlow.

    Example.features=1 { Features.feature=1 { key=1, value=2 {
        Feature.int64_list=3 { Int64List.value=1 (packed varints) } } } }
(tensorflow/core/example/example.proto, feature.proto). Keys are written in sorted
order, so that equal examples are equal bytes.
"""

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5


def serialize_example(example):
    """Returns the message of lists of non-negative ints by name."""
    return _field(1, b"".join(_feature(key, example[key]) for key in sorted(example)))


def _feature(key, values):
    packed = b"".join(map(_varints.__getitem__, values))
    feature = _field(3, _field(1, packed))
    return _field(1, _field(1, key.encode()) + _field(2, feature))


def _field(number, payload):
    return bytes([number << 3 | BYTES]) + _varints[len(payload)] + payload


class _Varints(dict):
    """The encoding of each number met so far: seven bits a byte, the lowest first."""

    def __missing__(self, number):
        rest, out = number, bytearray()
        while rest > 127:
            out.append(rest & 127 | 128)
            rest >>= 7
        self[number] = bytes(out) + bytes([rest])
        return self[number]


_varints = _Varints()


def decode_example(data):
    """Returns the int64 lists of a message by name; other features are empty lists.

    Raises:
        ValueError: the bytes aren't such a message.
    """
    example = {}
    for features in _fields(data, 1):
        for entry in _fields(features, 1):
            key = b"".join(_fields(entry, 1)).decode("utf-8")
            example[key] = [
                number
                for feature in _fields(entry, 2)
                for int64_list in _fields(feature, 3)
                for value in _fields(int64_list, 1)
                for number in ([value] if isinstance(value, int) else _unpack(value))
            ]
    return example


def _fields(data, wanted):
    """Yields the values of one field: an int for a varint, else bytes."""
    at = 0
    while at < len(data):
        tag, at = _read_varint(data, at)
        kind = tag & 7
        if kind == VARINT:
            value, end = _read_varint(data, at)
        elif kind == BYTES:
            length, at = _read_varint(data, at)
            end = at + length
        elif kind in (FIXED64, FIXED32):
            end = at + (8 if kind == FIXED64 else 4)
        else:
            raise ValueError(f"wire type {kind}")
        if end > len(data):
            raise ValueError("the message ends early")
        if tag >> 3 == wanted and tag > 7:
            yield value if kind == VARINT else data[at:end]
        at = end


def _unpack(data):
    numbers, at = [], 0
    while at < len(data):
        number, at = _read_varint(data, at)
        numbers.append(number - (1 << 64) if number >> 63 else number)
    return numbers


def _read_varint(data, at):
    number = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise ValueError("a number ends early")
        byte = data[at]
        number |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return number, at
