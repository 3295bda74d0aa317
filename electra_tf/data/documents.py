"""Reads a corpus as a stream of documents in bounded memory.

A document ends at a blank line (or only at the end of its file). One of more than
`PART_CHARACTERS` comes in parts, so that a file without blank lines needs no more
memory than one with them; parts share the document's lot (training or evaluation).
"""

import dataclasses

from electra_tf.data.corpus_files import read_lines
from electra_tf.data.segments import text_hash

PART_CHARACTERS = 1 << 20
BATCH_CHARACTERS = 1 << 18


@dataclasses.dataclass(frozen=True)
class Document:
    lines: list  # stripped, none of them blank
    is_start: bool = True  # False for the second and later parts
    for_eval: bool = False


def read_documents(path, blanks_separate_docs=True, **reading):
    """Yields the documents of a file; `reading` goes to `read_lines`."""
    lines, size, is_start = [], 0, True
    for line in read_lines(path, **reading):
        line = line.strip()
        if line:
            lines.append(line)
            size += len(line) + 1
        ends = not line and blanks_separate_docs
        if lines and (ends or size >= PART_CHARACTERS):
            yield Document(lines, is_start)
            lines, size, is_start = [], 0, False
        is_start = is_start or ends
    if lines:
        yield Document(lines, is_start)


def choose_for_eval(documents, fraction, seed):
    """Marks about `fraction` of the documents, chosen by a hash of their text."""
    for_eval = False
    for document in documents:
        if document.is_start:
            text = "\n".join(document.lines)
            for_eval = text_hash(seed, "eval", text) < fraction * 2**64
        yield dataclasses.replace(document, for_eval=for_eval)


def in_batches(documents, characters=BATCH_CHARACTERS):
    """Yields lists of documents, each the work of a moment for one process."""
    batch, size = [], 0
    for document in documents:
        batch.append(document)
        size += sum(map(len, document.lines))
        if size >= characters:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
