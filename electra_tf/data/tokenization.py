"""Text to WordPiece ids, exactly as the original's BERT tokenizer gives them.

Clean the characters, split at white space, CJK characters and punctuation, then
take the longest piece of the vocabulary that fits, again and again. The original
does this for each white-space separated word on its own, so words are cached.
"""

import hashlib
import json
import os
import re
import unicodedata
from dataclasses import asdict, dataclass

from electra_tf.data import unicode14
from electra_tf.errors import InputError
from electra_tf.files import read_bytes, read_json_object, write_bytes

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")

# Longer words become [UNK]; counted in characters after accents are stripped.
MAX_WORD_CHARACTERS = 200

VOCAB_FILE = "vocab.txt"
SETTINGS_FILE = "tokenizer.json"


@dataclass(frozen=True)
class TokenizerSettings:
    """How text is normalised; travels with every model.

    `strip_accents=None` means "when lower-casing". As in the original, accents are
    only ever stripped from lower-cased text: with `do_lower_case=False` they stay,
    whatever `strip_accents` says. Lower-casing with accents kept (for German or
    Turkish, say) is `TokenizerSettings(do_lower_case=True, strip_accents=False)`.
    """

    do_lower_case: bool = True
    strip_accents: bool | None = None

    @property
    def strips_accents(self):
        return self.do_lower_case and self.strip_accents is not False

    def to_json_dict(self):
        return asdict(self)

    @classmethod
    def from_json_dict(cls, values, source="the tokenizer settings"):
        if not isinstance(values, dict):
            raise InputError(f"{source}: expected a JSON object, got {values!r}")
        for name, value in values.items():
            if name not in ("do_lower_case", "strip_accents"):
                raise InputError(
                    f"{source}: unknown setting {name!r}; the settings are "
                    "do_lower_case and strip_accents"
                )
            optional = name == "strip_accents" and value is None
            if not isinstance(value, bool) and not optional:
                raise InputError(f"{source}: {name} is {value!r}; write true or false")
        return cls(**values)


class Tokenizer:
    """WordPiece over a vocabulary: `encode` gives ids, `tokenize` the pieces."""

    # Bounds of the cache: words of code or of unspaced scripts rarely come twice.
    CACHED_WORDS = 1 << 17
    CACHED_WORD_LENGTH = 64

    def __init__(self, vocabulary, settings=TokenizerSettings()):
        self.vocabulary = vocabulary
        self.settings = settings
        self._split_word = WordSplitter(settings).split_word
        self._longest = max(len(piece) for piece in vocabulary.tokens)
        self._cache = {}

    def encode(self, text):
        """Returns the list of ids of a text; [CLS] and [SEP] are not added."""
        ids = []
        cached = self._cache.get
        for word in whitespace_words(text):
            ids += cached(word) or self._encode_word(word)
        return ids

    def tokenize(self, text):
        """Returns the pieces of a text, as strings."""
        tokens = self.vocabulary.tokens
        return [tokens[i] for i in self.encode(text)]

    def convert_tokens_to_ids(self, tokens):
        ids = self.vocabulary.ids
        try:
            return [ids[token] for token in tokens]
        except KeyError as error:
            raise InputError(
                f"the piece {error.args[0]!r} is not in the vocabulary "
                f"{self.vocabulary.source}"
            ) from None

    def convert_ids_to_tokens(self, ids):
        return [self.vocabulary.tokens[i] for i in ids]

    def _encode_word(self, word):
        parts = spaced_out(word)
        if parts == [word]:
            pieces = self._split_word(word)
            found = tuple(i for piece in pieces for i in self._longest_first(piece))
        else:
            # Cleaning changed it. Chinese comes apart into characters: cached ones.
            cached = self._cache.get
            found = []
            for part in parts:
                found += cached(part) or self._encode_word(part)
            found = tuple(found)
        if len(word) <= self.CACHED_WORD_LENGTH:
            if len(self._cache) >= self.CACHED_WORDS:
                self._cache.clear()
            self._cache[word] = found
        return found

    def _longest_first(self, word):
        """Returns the ids of a word without spaces: the longest piece first."""
        if len(word) > MAX_WORD_CHARACTERS:
            return [self.vocabulary.unk_id]
        ids, start, prefix = [], 0, ""
        get = self.vocabulary.ids.get
        while start < len(word):
            end = min(len(word), start + self._longest)
            while end > start:
                piece_id = get(prefix + word[start:end])
                if piece_id is not None:
                    break
                end -= 1
            else:
                return [self.vocabulary.unk_id]
            ids.append(piece_id)
            start, prefix = end, "##"
        return ids


class WordSplitter:
    """The steps before WordPiece: normalise the text, split off punctuation.

    A word is what `str.split()` gives: the steps never look beyond white space.
    """

    def __init__(self, settings):
        self._lower = settings.do_lower_case
        self._strip = settings.strips_accents
        self._split_table = _SplitTable(drop_marks=self._strip)

    def split(self, text):
        """Returns the words and punctuation characters of a text."""
        words = (w for raw in whitespace_words(text) for w in spaced_out(raw))
        return [piece for word in words for piece in self.split_word(word)]

    def split_word(self, word):
        """Splits a cleaned word (one of `spaced_out`) at its punctuation."""
        if self._lower:
            # Before decomposing, as in the original: the order shows in "İ". Both
            # are fixed by Unicode's stability policy for the characters that 14.0
            # has assigned, and cleaning has removed the others.
            word = word.lower()
            if self._strip and not word.isascii():
                word = unicodedata.normalize("NFD", word)
        return word.translate(self._split_table).split()


def whitespace_words(text):
    """Splits a text at white space, as the original does after cleaning it."""
    # str.split() also splits at these; the original removes them as control
    # characters, which joins their neighbours.
    if _VANISHING_SPACES.search(text):
        text = _VANISHING_SPACES.sub("", text)
    return text.split()


_VANISHING_SPACES = re.compile("[\x0b\x0c\x1c-\x1f\x85]")


def spaced_out(word):
    """Cleans a word and returns its parts: CJK characters stand on their own."""
    return word.translate(_CLEAN_TABLE).split()


class _CleanTable(dict):
    """Removes control characters, unifies spaces, puts spaces around CJK.

    A table of `str.translate` that looks up each character on its first use.
    """

    def __missing__(self, code_point):
        if code_point in (0x09, 0x0A, 0x0D) or code_point in unicode14.SPACE:
            value = " "
        elif (
            code_point == 0xFFFD
            or code_point in unicode14.CONTROL
            or code_point in unicode14.UNASSIGNED
        ):
            value = None
        elif any(first <= code_point <= last for first, last in CJK_RANGES):
            value = f" {chr(code_point)} "
        else:
            value = code_point
        self[code_point] = value
        return value


# The blocks of ideographs. Hangul and kana are not among them: they stay in words.
CJK_RANGES = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B820, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)

_CLEAN_TABLE = _CleanTable()


class _SplitTable(dict):
    """Puts spaces around punctuation and, if asked, removes non-spacing marks."""

    def __init__(self, drop_marks):
        super().__init__()
        self._drop_marks = drop_marks

    def __missing__(self, code_point):
        if is_punctuation(code_point):
            value = f" {chr(code_point)} "
        elif self._drop_marks and code_point in unicode14.NONSPACING_MARK:
            value = None
        else:
            value = code_point
        self[code_point] = value
        return value


def is_punctuation(code_point):
    """All ASCII symbols count ("$", "^", "`" too), elsewhere Unicode's class P."""
    if code_point < 0x80:
        return 0x20 < code_point < 0x7F and not chr(code_point).isalnum()
    return code_point in unicode14.PUNCTUATION


class Vocabulary:
    """The pieces, their ids (the line numbers from 0) and the five special ids."""

    def __init__(self, tokens, source=""):
        self.tokens = tuple(tokens)
        self.source = source or "(given as a list)"
        self.ids = {token: i for i, token in enumerate(self.tokens)}
        self._check()
        special_ids = [self.ids[token] for token in SPECIAL_TOKENS]
        self.pad_id, self.unk_id, self.cls_id, self.sep_id, self.mask_id = special_ids
        self.size = len(self.tokens)
        text = "\n".join(self.tokens)
        self.sha256 = hashlib.sha256(text.encode("utf-8")).hexdigest()

    @classmethod
    def load(cls, path):
        """Reads a vocabulary file: UTF-8, one piece a line.

        Raises:
            InputError: the file is missing, or not such a vocabulary.
        """
        path = os.fspath(path)
        try:
            text = read_bytes(path).decode("utf-8")
        except UnicodeDecodeError as error:
            line = error.object[: error.start].count(b"\n") + 1
            raise InputError(
                f"the vocabulary {path}, line {line}, is not UTF-8 text "
                f"(byte {error.object[error.start]:#04x}): give a vocab.txt with one "
                "WordPiece a line"
            ) from None
        if text.startswith("\ufeff"):
            raise InputError(
                f"the vocabulary {path} begins with a byte order mark: save it as "
                "UTF-8 without one"
            )
        # Stripped as in the original, which also takes care of "\r\n".
        lines = [line.strip() for line in text.split("\n")]
        while lines and not lines[-1]:
            lines.pop()
        return cls(lines, source=path)

    def _check(self):
        if not self.tokens:
            raise InputError(
                f"the vocabulary {self.source} is empty: write one piece a line"
            )
        if "" in self.ids:
            raise InputError(
                f"the vocabulary {self.source}, line {self.tokens.index('') + 1}, is "
                "blank: ids are line numbers, so remove the line or fill it "
                "([unused0], for example)"
            )
        missing = [token for token in SPECIAL_TOKENS if token not in self.ids]
        if missing:
            raise InputError(
                f"the vocabulary {self.source} lacks {', '.join(missing)}"
                f"{self._foreign_format()}: a WordPiece vocabulary has one piece a "
                f"line, among them {' '.join(SPECIAL_TOKENS)}"
            )
        if len(self.ids) < len(self.tokens):
            self._report_duplicate()

    def _report_duplicate(self):
        seen = {}
        for number, token in enumerate(self.tokens, 1):
            if token in seen:
                raise InputError(
                    f"the vocabulary {self.source} holds {token!r} twice, in lines "
                    f"{seen[token]} and {number}: replace one of them "
                    "([unused0], for example)"
                )
            seen[token] = number

    def _foreign_format(self):
        for mark, kind in (("▁", "SentencePiece"), ("Ġ", "byte-level BPE")):
            marked = next((t for t in self.tokens if t.startswith(mark)), None)
            if marked:
                return f" (pieces such as {marked!r}: it looks like {kind})"
        return ""


def save_tokenizer(folder, vocabulary, settings):
    """Writes vocab.txt and tokenizer.json into a model's folder."""
    values = settings.to_json_dict()
    values["vocab_sha256"] = vocabulary.sha256
    text = json.dumps(values, indent=2) + "\n"
    save_vocabulary(os.path.join(folder, VOCAB_FILE), vocabulary.tokens)
    write_bytes(os.path.join(folder, SETTINGS_FILE), text.encode("utf-8"))


def save_vocabulary(path, tokens):
    """Writes a vocabulary file, one piece a line."""
    write_bytes(path, "".join(token + "\n" for token in tokens).encode("utf-8"))


def load_tokenizer(folder):
    """Returns the `Tokenizer` that `save_tokenizer` wrote into a folder."""
    path = os.path.join(folder, SETTINGS_FILE)
    vocabulary = Vocabulary.load(os.path.join(folder, VOCAB_FILE))
    values = read_json_object(path)
    expected = values.pop("vocab_sha256", None)
    settings = TokenizerSettings.from_json_dict(values, source=path)
    if expected not in (None, vocabulary.sha256):
        raise InputError(
            f"{vocabulary.source} is not the vocabulary that {path} was saved with "
            f"({vocabulary.size} pieces, sha256 {vocabulary.sha256[:12]}..., expected "
            f"{str(expected)[:12]}...): restore the model's own vocab.txt"
        )
    return Tokenizer(vocabulary, settings)
