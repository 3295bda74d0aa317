import pathlib
import random
import subprocess
import sys
import time

import pytest

from electra_tf.data.tokenization import (
    SPECIAL_TOKENS,
    Tokenizer,
    TokenizerSettings,
    Vocabulary,
)
from electra_tf.data.vocabulary_learner import build_vocab
from electra_tf.data.word_counts import count_words
from electra_tf.errors import InputError

ROOT = pathlib.Path(__file__).parent.parent
STEMS = ("play", "work", "talk", "jump", "paint", "help", "look", "walk", "cook")
ENDINGS = ("", "s", "ed", "ing", "er", "ers")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """Two files of regular English verbs, which have stems and endings to find."""
    folder = tmp_path_factory.mktemp("corpus")
    draw = random.Random(7)
    for name in ("one.txt", "two.txt"):
        lines = (
            " ".join(draw.choice(STEMS) + draw.choice(ENDINGS) for _ in range(12))
            for _ in range(200)
        )
        (folder / name).write_text("".join(f"{line}.\n" for line in lines), "utf-8")
    return folder


def files_of(folder):
    return sorted(str(path) for path in folder.iterdir())


def write(tmp_path, text):
    path = tmp_path / "text.txt"
    path.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8"))
    return [str(path)]


def run_tool(*arguments):
    command = [sys.executable, "-m", "tfrecords_tools.build_vocab", *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT)


@pytest.mark.parametrize("vocab_size", [60, 75, 90, 400])
def test_the_vocabulary_has_exactly_the_size_asked_for(corpus, vocab_size):
    pieces = build_vocab(files_of(corpus), vocab_size, num_unused=3)
    assert len(pieces) == len(set(pieces)) == vocab_size
    assert tuple(pieces[:5]) == SPECIAL_TOKENS
    assert pieces[5:8] == ["[unused0]", "[unused1]", "[unused2]"]


def test_frequent_words_become_pieces_and_nothing_is_unknown(corpus):
    tokenizer = Tokenizer(Vocabulary(build_vocab(files_of(corpus), 120, num_unused=0)))
    assert tokenizer.tokenize("Playing.") == ["playing", "."]
    assert "[UNK]" not in tokenizer.tokenize("wolk cooked plays")


def test_the_same_corpus_gives_the_same_vocabulary_for_any_number_of_processes(corpus):
    files = files_of(corpus)
    assert build_vocab(files, 190) == build_vocab(files, 190, num_processes=2)


def test_a_corpus_that_is_too_small_is_filled_with_unused_slots(tmp_path):
    said = []
    files = write(tmp_path, "aa bb aa bb\n")
    pieces = build_vocab(files, 20, num_unused=2, report=said.append)
    assert pieces[:7] == [*SPECIAL_TOKENS, "[unused0]", "[unused1]"]
    assert pieces[7:13] == ["a", "b", "##a", "##b", "aa", "bb"]
    assert pieces[13:] == [f"[unused{i}]" for i in range(2, 9)]
    assert any("gives 13 pieces only; 7 more" in line for line in said)


def test_rare_characters_beyond_the_limit_are_dropped_and_counted(tmp_path):
    said = []
    files = write(tmp_path, "ab ba ab ba qa\n" * 3)
    pieces = build_vocab(files, 20, num_unused=0, limit_alphabet=2, report=said.append)
    assert "q" not in pieces and "qa" not in pieces
    assert any("1 rare ones dropped" in line and "3 of 30" in line for line in said)
    assert any("[UNK] 3 (20.0000%)" in line for line in said)


def test_punctuation_and_ideographs_get_no_inner_piece(tmp_path):
    pieces = build_vocab(write(tmp_path, "我 我 a, a, 你好 你好\n"), 40, num_unused=0)
    assert {"我", "你", "好", ",", "a", "##a"} < set(pieces)
    assert not {"##我", "##你", "##好", "##,"} & set(pieces)


def test_case_and_accents_follow_the_settings(tmp_path):
    files = write(tmp_path, "Über Über über über\n")
    lower = build_vocab(files, 40, num_unused=0)
    assert "uber" in lower and "über" not in lower
    kept = build_vocab(files, 40, TokenizerSettings(True, False), num_unused=0)
    assert "über" in kept and "uber" not in kept
    cased = build_vocab(files, 40, TokenizerSettings(False), num_unused=0)
    assert {"über", "Über"} < set(cased)


def test_a_sample_reads_about_its_share_of_the_lines(corpus):
    files = files_of(corpus)
    everything = count_words(files, TokenizerSettings())
    size = sum(len(open(path, "rb").read()) for path in files)
    sample = count_words(files, TokenizerSettings(), max_input_chars=size // 4)
    share = sample.words.total() / everything.words.total()
    assert 0.15 < share < 0.35


def test_bad_utf8_is_counted_and_left_out(tmp_path):
    said = []
    files = write(tmp_path, b"good go\xffod\ngood\n")
    counted = count_words(files, TokenizerSettings(), report=said.append)
    assert counted.words == {"good": 3}
    assert any("1 lines are not valid UTF-8" in line for line in said)
    assert any("text.txt, line 1" in line for line in said)


def test_overlong_words_are_counted_as_unknown_and_not_kept(tmp_path):
    files = write(tmp_path, "x" * 3_000_000 + "\nword word\n")
    counted = count_words(files, TokenizerSettings())
    assert counted.words == {"word": 2}
    assert counted.too_long >= 1


@pytest.mark.parametrize(
    "text, size, message",
    [
        ("ab ab", 12, "--vocab_size=12 is too small: .* need 109"),
        ("ab ab", 4, "--vocab_size=4: it must be at least 5"),
        ("", 200, "holds no word"),
        ("\n \n", 200, "holds no word"),
    ],
)
def test_what_cannot_give_a_vocabulary_is_an_input_error(tmp_path, text, size, message):
    with pytest.raises(InputError, match=message):
        build_vocab(write(tmp_path, text), size)


# The command.


def test_help_answers_in_under_a_second():
    start = time.monotonic()
    result = run_tool("--help")
    assert "--vocab_size" in result.stdout
    assert time.monotonic() - start < 1


def test_the_command_writes_a_loadable_file_and_never_overwrites_it(corpus, tmp_path):
    target = tmp_path / "new" / "vocab.txt"
    arguments = (f"--corpus-dir={corpus}", f"--vocab_file={target}", "--vocab-size=180")
    result = run_tool(*arguments)
    assert result.returncode == 0, result.stderr
    assert "coverage:" in result.stderr
    assert Vocabulary.load(target).size == 180
    before = target.read_bytes()
    result = run_tool(*arguments)
    assert result.returncode == 1
    assert "exists already" in result.stderr and len(result.stderr.splitlines()) == 1
    result = run_tool(*arguments, "--overwrite", "--num_processes=2")
    assert result.returncode == 0, result.stderr
    assert target.read_bytes() == before


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--vocab_file=v"], "--corpus_dir is missing"),
        (["--corpus_dir=."], "--vocab_file is missing"),
        (["--corpus_dir=none", "--vocab_file=v"], "'none' does not exist"),
        (["--corpus_dir=*.none", "--vocab_file=v"], "no file matches"),
        (["--do_lower_case", "false"], "unexpected argument 'false'"),
    ],
)
def test_bad_input_ends_in_one_line_and_status_1(arguments, message):
    result = run_tool(*arguments)
    assert result.returncode == 1
    assert message in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_a_target_that_cannot_be_written_is_reported_before_the_work(corpus, tmp_path):
    blocker = write(tmp_path, "a file, not a folder")[0]
    result = run_tool(f"--corpus_dir={corpus}", f"--vocab_file={blocker}/vocab.txt")
    assert result.returncode == 1
    assert blocker in result.stderr and len(result.stderr.splitlines()) == 1


def test_importing_the_tool_defines_no_flags():
    from absl import flags

    assert "limit_alphabet" not in flags.FLAGS
