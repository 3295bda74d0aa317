"""Prose out of source code, and nothing else."""

import pytest

from electra_tf.errors import InputError
from tfrecords_tools import build_docstring_corpus as tool

SOURCE = '''
# Copyright 2020 The Authors. All rights reserved by the people who wrote this.

"""Reads a file of numbers and gives back their mean.

The file is read line by line, so that it
may be larger than the memory.

>>> mean("numbers.txt") is what you would call here.
3.5

Args:
    path: The name of the file that holds the numbers to read.
    x: int
"""

# This comment goes over two lines and explains
# why the loop below counts from one.
def mean(path):
    """Short one."""
    text = "This string is an argument and no docstring at all."


class Mean:
    def add(self, number):
        """Adds a number to the ``sum`` that :func:`mean` divides."""
'''


def prose_of(source):
    return [p for text in tool.texts_of(source) for p in tool.paragraphs(text)]


def test_sentences_of_docstrings_and_comments_are_kept():
    assert prose_of(SOURCE) == [
        "Reads a file of numbers and gives back their mean.",
        "The file is read line by line, so that it may be larger than the memory.",
        "The name of the file that holds the numbers to read.",
        "Adds a number to the sum that mean divides.",
        "This comment goes over two lines and explains why the loop below counts "
        "from one.",
    ]


@pytest.mark.parametrize(
    "line",
    [
        "Too short to keep.",
        "-> what begins with a mark is no sentence but a table.",
        "It ends without a mark of any kind here",
        "x_train, y_train = load_data(path_1), self.y[0] + foo(bar_2).",
        "Licensed under the Apache License, Version two of it.",
    ],
)
def test_other_lines_are_dropped(line):
    assert not tool.is_prose(line)


def test_fenced_code_is_dropped():
    text = "```\nThis line is inside a fence and looks like prose.\n```\n"
    assert list(tool.paragraphs(text)) == []


def test_a_paragraph_seen_before_is_dropped(tmp_path):
    for name in ("a.py", "b.py"):
        (tmp_path / name).write_text(SOURCE)
    (tmp_path / "broken.py").write_text("def (")
    paths = sorted(tmp_path.iterdir())
    assert list(tool.documents(paths)) == [prose_of(SOURCE)]


def test_help_topics_are_strings_of_an_assignment():
    source = "topics = {'if': 'The if statement is used for conditional execution.'}"
    assert list(tool.texts_of(source)) == []
    assert len(tool.texts_of(source, every_string=True)) == 2


def test_the_corpus_is_the_same_twice_and_stays_below_its_size(tmp_path, monkeypatch):
    files = tool.source_files()
    assert len(files) > 500
    monkeypatch.setattr(tool, "source_files", lambda: files[:150])
    monkeypatch.setattr(tool, "FILE_BYTES", 20_000)
    made = [tool.build(tmp_path / name, max_bytes=100_000) for name in ("a", "b")]
    assert made[0] == made[1]
    names = sorted(path.name for path in (tmp_path / "a").iterdir())
    assert names[:2] == ["corpus-00.txt", "corpus-01.txt"]
    size = sum(path.stat().st_size for path in (tmp_path / "a").iterdir())
    assert 99_000 < size == made[0][0] <= 100_000


def test_a_size_without_room_for_a_document_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(tool, "source_files", lambda: [])
    with pytest.raises(InputError, match="no document fits"):
        tool.build(tmp_path, max_bytes=10)
