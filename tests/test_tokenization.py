import hashlib
import json
import pathlib
import subprocess
import sys
import unicodedata

import pytest

from electra_tf.data import unicode14
from electra_tf.data.tokenization import (
    SPECIAL_TOKENS,
    Tokenizer,
    TokenizerSettings,
    Vocabulary,
    WordSplitter,
    load_tokenizer,
    save_tokenizer,
)
from electra_tf.errors import InputError

needs_unicode_14 = pytest.mark.skipif(
    unicodedata.unidata_version != "14.0.0",
    reason=f"this Python's unicodedata is {unicodedata.unidata_version}, not 14.0.0",
)

CASED = TokenizerSettings(do_lower_case=False)
ACCENTS_KEPT = TokenizerSettings(strip_accents=False)
ALL_SETTINGS = (TokenizerSettings(), ACCENTS_KEPT, CASED)

# Of `sweep_digest`, the same under Python 3.11, 3.12 and 3.13.
SWEEP_SHA256 = "9dbb063f7402772880e52988ba8dc98d0a968fb4fb6f67ecd0de28c1d7b1ed53"


def make_tokenizer(*pieces, settings=TokenizerSettings()):
    return Tokenizer(Vocabulary(SPECIAL_TOKENS + pieces), settings)


def split(text, settings=TokenizerSettings()):
    return WordSplitter(settings).split(text)


# The recorded tokenizations.


def assert_equals_recording(entries, vocabulary):
    assert entries
    for entry in entries:
        settings = TokenizerSettings(entry["do_lower_case"], entry["strip_accents"])
        tokenizer = Tokenizer(vocabulary, settings)
        for _ in range(2):  # the second time from the cache
            assert tokenizer.tokenize(entry["text"]) == entry["tokens"], entry
            assert tokenizer.encode(entry["text"]) == entry["ids"], entry


@pytest.mark.golden
def test_own_vocabulary_gives_the_recorded_ids(golden):
    entries = json.loads((golden / "tokenizer_own_vocab.json").read_text("utf-8"))
    assert_equals_recording(entries, Vocabulary.load(golden / "vocab_own.txt"))


@pytest.mark.golden
def test_english_vocabulary_gives_the_recorded_ids(golden, english_vocab):
    recording = golden / "tokenizer.json"
    if not recording.exists():
        pytest.skip(f"{recording} (recorded with the original's vocabulary) is absent")
    vocabulary = Vocabulary.load(english_vocab)
    assert_equals_recording(json.loads(recording.read_text("utf-8")), vocabulary)


@pytest.mark.golden
def test_one_tokenizer_for_all_texts_equals_a_new_one_for_each(golden):
    entries = json.loads((golden / "tokenizer_own_vocab.json").read_text("utf-8"))
    entries = [e for e in entries if e["do_lower_case"] and e["strip_accents"]]
    tokenizer = Tokenizer(Vocabulary.load(golden / "vocab_own.txt"))
    for entry in entries + entries[::-1]:
        assert tokenizer.encode(entry["text"]) == entry["ids"]


# Unicode 14.0 under every Python.


def sweep_texts():
    # Planes 4 to 13 hold no character at all: one in 61 will do there. (The table
    # test below covers every code point.)
    empty_planes = range(0x40000, 0xE0000)
    for code_point in range(0x110000):
        if code_point in empty_planes and code_point % 61:
            continue
        character = chr(code_point)
        # Between letters, after a capital sigma (whose lower case depends on what
        # follows) and on its own.
        yield f"A{character}b\u03a3{character} {character}"


def sweep_digest():
    digest = hashlib.sha256()
    splitters = [WordSplitter(settings) for settings in ALL_SETTINGS]
    for text in sweep_texts():
        for splitter in splitters:
            pieces = "\n".join(splitter.split(text)) + "\n\n"
            digest.update(pieces.encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def test_every_character_splits_as_under_unicode_14():
    assert sweep_digest() == SWEEP_SHA256


@needs_unicode_14
def test_every_character_splits_as_the_literal_algorithm_says():
    for settings in ALL_SETTINGS:
        splitter = WordSplitter(settings)
        for text in sweep_texts():
            assert splitter.split(text) == literal_split(text, settings), ascii(text)


@needs_unicode_14
@pytest.mark.parametrize(
    "name, categories",
    [
        ("UNASSIGNED", {"Cn"}),
        ("CONTROL", {"Cc", "Cf", "Cs", "Co"}),
        ("SPACE", {"Zs"}),
        ("PUNCTUATION", {"Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po"}),
        ("NONSPACING_MARK", {"Mn"}),
    ],
)
def test_the_frozen_table_is_that_of_unicode_14(name, categories):
    table = getattr(unicode14, name)
    expected = {
        c for c in range(0x110000) if unicodedata.category(chr(c)) in categories
    }
    assert {c for a, b in table.ranges for c in range(a, b + 1)} == expected
    edges = {c + d for a, b in table.ranges for c in (a, b) for d in (-1, 0, 1)}
    assert {c for c in edges if c in table} == edges & expected


def literal_split(text, settings):
    """The original's steps one by one, with the running Python's `unicodedata`."""
    cleaned = ""
    for c in text:
        category = unicodedata.category(c)
        if c in " \t\n\r" or category == "Zs":
            cleaned += " "
        elif category[0] != "C" and c != "\ufffd":
            cleaned += f" {c} " if is_ideograph(ord(c)) else c
    pieces = []
    for word in cleaned.split():
        if settings.do_lower_case:
            word = word.lower()
            if settings.strip_accents is not False:
                word = unicodedata.normalize("NFD", word)
                word = "".join(c for c in word if unicodedata.category(c) != "Mn")
        for c in word:
            if c in "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~":
                pieces.append(f" {c} ")
            elif unicodedata.category(c)[0] == "P":
                pieces.append(f" {c} ")
            else:
                pieces.append(c)
        pieces.append(" ")
    return "".join(pieces).split()


def is_ideograph(code_point):
    return (
        0x3400 <= code_point <= 0x4DBF
        or 0x4E00 <= code_point <= 0x9FFF
        or 0xF900 <= code_point <= 0xFAFF
        or 0x20000 <= code_point <= 0x2A6DF
        or 0x2A700 <= code_point <= 0x2CEAF
        or 0x2F800 <= code_point <= 0x2FA1F
    )


# The steps, by hand.


def test_case_and_accents_are_chosen_independently():
    text = "Über Élan"
    assert split(text) == ["uber", "elan"]
    assert split(text, ACCENTS_KEPT) == ["über", "élan"]
    assert split(text, CASED) == ["Über", "Élan"]


def test_accents_are_never_stripped_from_cased_text():
    assert split("Élan", TokenizerSettings(False, strip_accents=True)) == ["Élan"]


def test_lower_casing_comes_before_decomposing():
    # "İ".lower() is "i" and a combining dot, which is stripped.
    assert split("İstanbul") == ["istanbul"]
    assert split("İstanbul", ACCENTS_KEPT) == ["i\u0307stanbul"]


def test_a_sigma_at_the_end_of_a_word_is_final():
    assert split("ΟΔΟΣ ΟΔΟΣ.", ACCENTS_KEPT) == ["οδος", "οδος", "."]


def test_control_characters_vanish_and_join_their_neighbours():
    assert split("a\x00b\x1cc\x0bd\x85e\u200df\u00adg\ufffdh\u0378i") == ["abcdefghi"]


def test_tabs_line_ends_and_unicode_spaces_separate():
    separators = "\t\n\r \u00a0\u3000\u2028\u2029"
    text = "x" + "x".join(separators) + "x"
    assert split(text) == ["x"] * 9


def test_cjk_characters_stand_alone_and_kana_and_hangul_stay_together():
    assert split("我爱NLP") == ["我", "爱", "nlp"]
    assert split("東京タワー", CASED) == ["東", "京", "タワー"]
    assert split("한국어", CASED) == ["한국어"]


def test_punctuation_is_split_off_one_by_one():
    assert split("don't stop... $5^2") == (
        ["don", "'", "t", "stop", ".", ".", ".", "$", "5", "^", "2"]
    )


def test_a_special_token_written_in_the_text_is_plain_text():
    tokenizer = make_tokenizer("[", "]", "mask")
    assert tokenizer.tokenize("[MASK]") == ["[", "mask", "]"]


def test_the_longest_piece_comes_first():
    tokenizer = make_tokenizer("un", "una", "##aff", "##ff", "##able", "##a", "##ble")
    assert tokenizer.tokenize("unaffable") == ["una", "##ff", "##able"]


def test_a_word_that_cannot_be_finished_is_one_unknown():
    tokenizer = make_tokenizer("play", "##ing")
    assert tokenizer.tokenize("playing playful") == ["play", "##ing", "[UNK]"]


def test_words_of_200_characters_are_split_and_longer_ones_unknown():
    tokenizer = make_tokenizer("a", "##a")
    assert len(tokenizer.encode("a" * 200)) == 200
    assert tokenizer.tokenize("a" * 201) == ["[UNK]"]
    # Counted after stripping: 200 letters and 200 accents.
    assert len(tokenizer.encode("a\u0301" * 200)) == 200


def test_a_full_cache_changes_nothing(monkeypatch):
    monkeypatch.setattr(Tokenizer, "CACHED_WORDS", 3)
    tokenizer = make_tokenizer("a", "b", "##a", "##b")
    words = [f"{'ab' * (i % 4)}a" for i in range(50)]
    fresh = [make_tokenizer("a", "b", "##a", "##b").encode(word) for word in words]
    assert [tokenizer.encode(word) for word in words] == fresh
    assert len(tokenizer._cache) <= 3


def test_empty_and_blank_texts_have_no_ids():
    tokenizer = make_tokenizer("a")
    for text in ("", " ", "\n\t", "\x00", "\u200d"):
        assert tokenizer.encode(text) == []


def test_pieces_convert_to_ids_and_unknown_pieces_are_an_error():
    tokenizer = make_tokenizer("hello")
    assert tokenizer.convert_tokens_to_ids(["[CLS]", "hello", "[SEP]"]) == [2, 5, 3]
    assert tokenizer.convert_ids_to_tokens([2, 5, 3]) == ["[CLS]", "hello", "[SEP]"]
    with pytest.raises(InputError, match="'bye'"):
        tokenizer.convert_tokens_to_ids(["bye"])


def test_importing_the_tokenizer_loads_neither_numpy_nor_tensorflow():
    code = (
        "import sys, electra_tf.data.tokenization; "
        "sys.exit(bool({'numpy', 'tensorflow', 'keras'} & set(sys.modules)))"
    )
    root = pathlib.Path(__file__).parent.parent
    assert subprocess.run([sys.executable, "-c", code], cwd=root).returncode == 0


# Vocabularies.


def write_vocab(tmp_path, text):
    path = tmp_path / "vocab.txt"
    path.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8"))
    return path


def test_the_special_tokens_may_be_anywhere(tmp_path):
    vocabulary = Vocabulary.load(
        write_vocab(tmp_path, "the\n[MASK]\n[SEP]\n[UNK]\n[PAD]\n[CLS]\n")
    )
    assert vocabulary.size == 6
    ids = (vocabulary.pad_id, vocabulary.unk_id, vocabulary.cls_id)
    assert ids + (vocabulary.sep_id, vocabulary.mask_id) == (4, 3, 5, 2, 1)
    assert Tokenizer(vocabulary).encode("the x") == [0, 3]


def test_windows_line_ends_and_a_missing_last_one_give_the_same_vocabulary(tmp_path):
    tokens = SPECIAL_TOKENS + ("é", "##b")
    expected = Vocabulary(tokens)
    assert expected.sha256 == hashlib.sha256("\n".join(tokens).encode()).hexdigest()
    for text in ("\r\n".join(tokens) + "\r\n", "\n".join(tokens)):
        loaded = Vocabulary.load(write_vocab(tmp_path, text))
        assert loaded.tokens == tokens
        assert loaded.sha256 == expected.sha256


SPECIALS = "\n".join(SPECIAL_TOKENS) + "\n"


@pytest.mark.parametrize(
    "text, message",
    [
        ("", "is empty"),
        ("\n\n", "is empty"),
        ("[PAD]\n[CLS]\nx\n", r"lacks \[UNK\], \[SEP\], \[MASK\]"),
        ("<s>\n▁the\n", "looks like SentencePiece"),
        ("<s>\nĠthe\n", "looks like byte-level BPE"),
        (SPECIALS + "a\nb\na\n", "'a' twice, in lines 6 and 8"),
        (SPECIALS + "a\n\nb\n", "line 7, is blank"),
        (SPECIALS.encode() + b"a\n\xff\xfe\n", "line 7, is not UTF-8"),
    ],
)
def test_a_bad_vocabulary_is_refused_in_one_line(tmp_path, text, message):
    path = write_vocab(tmp_path, text)
    with pytest.raises(InputError, match=message) as caught:
        Vocabulary.load(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_vocabulary_is_an_input_error(tmp_path):
    with pytest.raises(InputError, match="does not exist"):
        Vocabulary.load(tmp_path / "none.txt")
    with pytest.raises(InputError, match="not a file"):
        Vocabulary.load(tmp_path)


# Settings and model folders.


@pytest.mark.parametrize("settings", ALL_SETTINGS)
def test_a_tokenizer_survives_saving_and_loading(tmp_path, settings):
    vocabulary = Vocabulary(SPECIAL_TOKENS + ("über", "uber", "Über"))
    save_tokenizer(tmp_path / "model", vocabulary, settings)
    loaded = load_tokenizer(tmp_path / "model")
    assert loaded.settings == settings
    assert loaded.vocabulary.tokens == vocabulary.tokens
    assert loaded.encode("Über") == Tokenizer(vocabulary, settings).encode("Über")
    names = sorted(path.name for path in (tmp_path / "model").iterdir())
    assert names == ["tokenizer.json", "vocab.txt"]


def test_a_model_folder_with_another_vocabulary_is_refused(tmp_path):
    save_tokenizer(tmp_path, Vocabulary(SPECIAL_TOKENS + ("a",)), CASED)
    write_vocab(tmp_path, SPECIALS + "b\n")
    with pytest.raises(InputError, match="not the vocabulary"):
        load_tokenizer(tmp_path)


@pytest.mark.parametrize(
    "text, message",
    [
        ('{"do_lower_case": "false"}', "do_lower_case is 'false'"),
        ('{"lower": true}', "unknown setting 'lower'"),
        ("[1]", "not a JSON object"),
        ("{", "is damaged"),
    ],
)
def test_bad_tokenizer_settings_are_refused(tmp_path, text, message):
    write_vocab(tmp_path, SPECIALS)
    (tmp_path / "tokenizer.json").write_text(text)
    with pytest.raises(InputError, match=message):
        load_tokenizer(tmp_path)


def test_settings_round_trip_through_json():
    for settings in ALL_SETTINGS:
        values = json.loads(json.dumps(settings.to_json_dict()))
        assert TokenizerSettings.from_json_dict(values) == settings
    assert TokenizerSettings().strips_accents
    assert not ACCENTS_KEPT.strips_accents
    assert not TokenizerSettings(False, True).strips_accents
