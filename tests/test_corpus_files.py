import os
import pathlib

import pytest

from electra_tf.data.corpus_files import list_text_files, read_lines
from electra_tf.errors import InputError


def write(path, data=b"x\n"):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def lines_of(tmp_path, data, **options):
    return list(read_lines(write(tmp_path / "text.txt", data), **options))


# Finding files.


def test_a_directory_stands_for_all_its_files_sorted_and_hidden_ones_left_out(tmp_path):
    for name in ("b.txt", "a.txt", "sub/c", ".hidden", ".git/config"):
        write(tmp_path / name)
    found = [os.path.relpath(f, tmp_path) for f in list_text_files(tmp_path)]
    assert found == ["a.txt", "b.txt", os.path.join("sub", "c")]


def test_a_pattern_and_a_single_file_are_a_corpus_too(tmp_path):
    for name in ("b.txt", "a.txt", "c.md"):
        write(tmp_path / name)
    found = list_text_files(str(tmp_path / "*.txt"))
    assert [os.path.basename(f) for f in found] == ["a.txt", "b.txt"]
    assert list_text_files(tmp_path / "c.md") == [str(tmp_path / "c.md")]


def test_a_name_that_looks_like_a_pattern_is_taken_literally_if_it_exists(tmp_path):
    path = write(tmp_path / "part[1].txt")
    assert list_text_files(path) == [str(path)]


def test_a_directory_in_a_pattern_is_not_a_file(tmp_path):
    write(tmp_path / "sub/a")
    write(tmp_path / "text")
    assert list_text_files(str(tmp_path / "*")) == [str(tmp_path / "text")]


@pytest.mark.parametrize(
    "name, message",
    [
        ("", "give a directory"),
        ("none", "does not exist"),
        ("empty", "holds no file"),
        ("*.txt", "no file matches"),
    ],
)
def test_a_corpus_without_files_is_an_input_error(tmp_path, monkeypatch, name, message):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "empty/.hidden")
    with pytest.raises(InputError, match=message) as caught:
        list_text_files(name)
    assert repr(name) in str(caught.value)


# Reading lines.


def test_lines_lose_their_line_feed_and_nothing_else(tmp_path):
    data = " a \r\n\n\tb\u2028c\u0085d\n e".encode()
    assert lines_of(tmp_path, data) == [" a \r", "", "\tb\u2028c\u0085d", " e"]


def test_an_empty_file_has_no_lines_and_an_empty_line_is_one(tmp_path):
    assert lines_of(tmp_path, b"") == []
    assert lines_of(tmp_path, b"\n") == [""]


def test_bad_utf8_is_replaced_and_reported_once_a_line(tmp_path):
    reports = []
    data = b"good\nb\xffd \xfe\ngood\n\xe4\n"
    lines = lines_of(tmp_path, data, on_error=lambda path, n: reports.append(n))
    assert lines == ["good", "b\ufffdd \ufffd", "good", "\ufffd"]
    assert reports == [2, 4]


def test_a_giant_line_comes_in_pieces_cut_at_white_space(tmp_path):
    words = [f"word{i}" for i in range(1000)]
    pieces = lines_of(tmp_path, " ".join(words).encode() + b"\nend\n", chunk_bytes=64)
    assert all(len(piece) <= 64 for piece in pieces)
    assert " ".join(pieces[:-1]).split() == words
    assert pieces[-1] == "end"


def test_a_giant_word_is_cut_between_characters(tmp_path):
    text = "aé我😀" * 100
    for chunk_bytes in range(8, 40):
        pieces = lines_of(tmp_path, text.encode(), chunk_bytes=chunk_bytes)
        assert "".join(pieces) == text
        assert all(len(piece.encode()) <= chunk_bytes for piece in pieces)


def test_no_blank_piece_of_a_giant_line_looks_like_the_end_of_a_document(tmp_path):
    for data in (b"a" * 63 + b" \nb\n", b" " * 200 + b"a\nb\n", b"a" + b" " * 200):
        lines = lines_of(tmp_path, data, chunk_bytes=64)
        assert all(line.strip() for line in lines), lines
    assert lines_of(tmp_path, b"a\n" + b" " * 200 + b"\nb\n", chunk_bytes=64)[1:] == [
        " " * 8,
        "b",
    ]


def test_a_bad_byte_in_a_giant_line_counts_as_one_bad_line(tmp_path):
    reports = []
    data = b"\xff bad " * 100 + b"\n"
    lines_of(tmp_path, data, chunk_bytes=64, on_error=lambda p, n: reports.append(n))
    assert reports == [1]


def test_progress_adds_up_to_the_size_of_the_file(tmp_path):
    sizes = []
    data = b"some text\n" * 100_000
    lines_of(tmp_path, data, on_read=sizes.append)
    assert sum(sizes) == len(data)
    assert len(sizes) > 2


def test_a_remote_path_reads_the_same_lines(tmp_path):
    # TensorFlow's memory file system stands for gs:// here.
    import tensorflow as tf

    folder = f"ram://{tmp_path.name}"
    data = ("a 我\n\nb" + " word" * 100 + "\n").encode()
    for name in ("b.txt", "a.txt", ".hidden"):
        with tf.io.gfile.GFile(f"{folder}/{name}", "wb") as stream:
            stream.write(data)
    files = list_text_files(f"{folder}/*.txt")
    assert [pathlib.PurePath(f).name for f in files] == ["a.txt", "b.txt"]
    local = lines_of(tmp_path, data, chunk_bytes=64)
    assert list(read_lines(files[0], chunk_bytes=64)) == local
    with pytest.raises(InputError, match="no file is found"):
        list_text_files(f"{folder}/*.md")
