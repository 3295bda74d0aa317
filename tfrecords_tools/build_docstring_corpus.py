"""Writes a corpus of English prose that is already on every machine with this project.

python -m tfrecords_tools.build_docstring_corpus --output_dir=text

The prose comes from docstrings, comments and help topics of Python's standard
library and of the packages that requirements.txt installs. Files are read, never
imported. The same installed versions give the same bytes.
"""

import ast
import hashlib
import importlib.metadata
import inspect
import math
import pathlib
import re
import sysconfig
import warnings

from absl import flags

from electra_tf import command_line
from electra_tf.errors import InputError
from electra_tf.files import UNFINISHED

FILE_BYTES = 4_000_000
REQUIREMENTS = pathlib.Path(__file__).parent.parent / "requirements.txt"
SKIPPED_FOLDERS = {"tests", "test", "site-packages", "idlelib", "lib2to3", "_vendor"}

FLAGS = flags.FLAGS


def build(output_dir, max_bytes, overwrite=False):
    """Writes corpus-00.txt, ... and returns (bytes, documents, sha256 of all)."""
    output_dir = pathlib.Path(output_dir)
    existing = sorted(output_dir.glob("corpus-*.txt"))
    if existing and not overwrite:
        raise InputError(
            f"{output_dir} already holds {existing[0].name}: choose another output "
            "folder, or replace corpus-00.txt, corpus-01.txt, ... with --overwrite"
        )
    sha256, size, number = hashlib.sha256(), 0, 0
    texts, pending = [], bytearray()
    for document in documents(source_files()):
        data = _fitting(document, max_bytes - size)
        if not data:
            break
        sha256.update(data)
        size, number = size + len(data), number + 1
        pending += data
        if len(pending) >= FILE_BYTES:
            texts.append(pending)
            pending = bytearray()
    texts += [pending] if pending else []
    if not texts:
        raise InputError(f"no document fits into {max_bytes} bytes")
    texts = {f"corpus-{i:02d}.txt": text for i, text in enumerate(texts)}
    if output_dir.exists():
        _replace_files(output_dir, texts)
    else:
        _write_folder(output_dir, texts)
    return size, number, sha256.hexdigest()


def _fitting(document, room):
    """Returns as many of a document's lines as fit, and the blank one after it."""
    lines, size = [], 1
    for paragraph in document:
        line = f"{paragraph}\n".encode()
        size += len(line)
        if size > room:
            break
        lines.append(line)
    return b"".join([*lines, b"\n"]) if lines else b""


def _write_folder(folder, texts):
    """Makes a folder that appears with all its files."""
    unfinished = folder.with_name(folder.name + UNFINISHED)
    unfinished.mkdir(parents=True, exist_ok=True)
    try:
        _replace_files(unfinished, texts)
        unfinished.rename(folder)
    except BaseException:
        for name in texts:
            (unfinished / name).unlink(missing_ok=True)
        if not any(unfinished.iterdir()):
            unfinished.rmdir()
        raise


def _replace_files(folder, texts):
    """Writes all files before the first one gets its name; removes older ones."""
    unfinished = {name: folder / (name + UNFINISHED) for name in texts}
    try:
        for name, path in unfinished.items():
            path.write_bytes(texts[name])
        for name, path in unfinished.items():
            path.replace(folder / name)
    except BaseException:
        for path in unfinished.values():
            path.unlink(missing_ok=True)
        raise
    for path in folder.glob("corpus-[0-9][0-9].txt"):
        if path.name not in texts:  # of an earlier, larger corpus
            path.unlink()
    for path in folder.glob(f"corpus-[0-9][0-9].txt{UNFINISHED}"):
        path.unlink()  # of a build that was killed


# ---- which files


def source_files():
    """Returns the Python files to read, the standard library's first."""
    stdlib = pathlib.Path(sysconfig.get_paths()["stdlib"])
    files = sorted(p for p in stdlib.rglob("*.py") if _wanted(p.relative_to(stdlib)))
    for distribution in required_distributions():
        paths = [p for p in distribution.files or [] if p.suffix == ".py"]
        wanted = sorted(p for p in paths if _wanted(p))
        files += [pathlib.Path(distribution.locate_file(p)) for p in wanted]
    return files


def _wanted(path):
    return not SKIPPED_FOLDERS.intersection(path.parts) and ".." not in path.parts


def required_distributions():
    """Returns what requirements.txt installs, sorted by name; all if it's not there."""
    if not REQUIREMENTS.exists():
        found = {
            _name(d.metadata["Name"]): d for d in importlib.metadata.distributions()
        }
        return [found[name] for name in sorted(found)]
    lines = REQUIREMENTS.read_text(encoding="utf-8").splitlines()
    waiting = [line for line in lines if re.match(r"\w", line)]
    found = {}
    while waiting:
        requirement = waiting.pop()
        name = _name(re.match(r"[\w.-]+", requirement)[0])
        if name in found or "extra ==" in requirement:
            continue
        try:
            found[name] = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            continue  # of another platform
        waiting += found[name].requires or []
    return [found[name] for name in sorted(found)]


def _name(name):
    return re.sub(r"[-_.]+", "-", name).lower()


# ---- what of them


def documents(files):
    """Yields the prose of each file, a list of paragraphs not seen before."""
    seen = set()
    for path in files:
        try:
            source = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            continue
        document = []
        for text in texts_of(source, every_string=path.parent.name == "pydoc_data"):
            for paragraph in paragraphs(text):
                key = hashlib.blake2b(paragraph.encode(), digest_size=8).digest()
                if key not in seen:
                    seen.add(key)
                    document.append(paragraph)
        if document:
            yield document


def texts_of(source, every_string=False):
    """Returns the docstrings of a module, then its comments, in their order."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # invalid escapes in old code
            tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return []
    return [*_docstrings(tree, every_string), *_comments(source)]


def _docstrings(tree, every_string):
    """Strings that stand as statements (or all); only statements hold others."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        value = getattr(node, "value", None)
        if isinstance(node, ast.Expr) and isinstance(value, ast.Constant):
            if isinstance(value.value, str):
                yield inspect.cleandoc(value.value)
        elif every_string and isinstance(node, ast.Assign):
            strings = [n.value for n in ast.walk(value) if isinstance(n, ast.Constant)]
            yield from (inspect.cleandoc(s) for s in strings if isinstance(s, str))
        for block in ("finalbody", "orelse", "handlers", "body"):
            inner = getattr(node, block, ())
            waiting += reversed(inner) if isinstance(inner, list) else ()


def _comments(source):
    """Joins consecutive lines of comment to one text each."""
    for block in re.findall(r"(?:^[ \t]*#[^\n]*\n)+", source, re.MULTILINE):
        yield re.sub(r"^[ \t]*# ?", "", block, flags=re.MULTILINE)


def paragraphs(text):
    """Yields the prose paragraphs of a text, each as one line."""
    text = re.sub(r"```.*?(```|\Z)", "\n\n", text, flags=re.DOTALL)
    for block in re.split(r"\n\s*\n", text):
        for item in _items(block):
            line = _unmarked(" ".join(item.split()))
            if is_prose(line):
                yield line


# "name: description", "name (type): description", "a, b : description".
_PARAMETER = re.compile(r"\*{0,2}`?\w+`?(?:, `?\w+`?)*(?: ?\([^)]*\))?\s?:\s+")


def _items(block):
    """Splits a block at changes of indentation; drops doctests and tables.

    What is indented below a parameter's name is its description: prose, often.
    """
    items, indent = [[]], None
    for line in block.split("\n"):
        bare = line.strip()
        at = len(line) - len(line.lstrip())
        bullet = re.match(r"(?:[-*+•]|\d+[.)])\s+", bare)
        parameter = _PARAMETER.match(bare)
        code = bare.startswith((">>>", "...", "$ ", "|", "+-", ".. ", ":", "@"))
        if code or bullet or parameter or (indent is not None and at != indent):
            items.append([])
        indent = at
        if bullet or parameter:
            bare = bare[(bullet or parameter).end() :]
            indent = None  # its next lines may hang
        if not code:
            items[-1].append(bare)
        else:
            items.append([])
    return [" ".join(item) for item in items if item]


def _unmarked(line):
    """Takes away reStructuredText and Markdown marks around words."""
    line = re.sub(r":[\w:+-]+:`~?([^`<]*?)(?: ?<[^>]*>)?`", r"\1", line)
    line = re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", line)
    line = re.sub(r"`{1,2}([^`]*)`{1,2}_{0,2}", r"\1", line)
    return re.sub(r"\*{1,2}(\w[^*]*\w)\*{1,2}", r"\1", line)


_LICENCE = re.compile(
    r"copyright|licen[sc]e|warrant(y|ies)|redistribut|all rights|apache\.org|@author"
    r"|generated by|do not edit|pylint|noqa|type: ignore",
    re.IGNORECASE,
)
_WORD = re.compile(r"[A-Za-z][a-z]*(?:['-][a-z]+)*[,.;:!?)\"']*")


def is_prose(line):
    """True for six words or more, most of them plain, that end like a sentence."""
    words = line.split()
    if len(words) < 6 or line[-1] not in ".!?:\"')" or not line[0].isalpha():
        return False
    if _LICENCE.search(line):
        return False
    plain = sum(1 for word in words if _WORD.fullmatch(word.lstrip("(\"'")))
    return plain >= 0.7 * len(words)


def define_flags():
    flags.DEFINE_string("output_dir", None, "Where corpus-00.txt, ... go.")
    flags.DEFINE_float("max_megabytes", 14.0, "Stop at this size (10**6 bytes).")
    flags.DEFINE_bool("overwrite", False, "Replace corpus-00.txt, ... in output_dir.")
    command_line.alias_with_hyphens("output_dir", "max_megabytes")


def main():
    if not FLAGS.output_dir:
        raise InputError("--output_dir is missing: see --help")
    if not 0 < FLAGS.max_megabytes < math.inf:  # nor is it nan
        raise InputError(
            f"max_megabytes is {FLAGS.max_megabytes}, wanted a number above 0"
        )
    max_bytes = int(FLAGS.max_megabytes * 1e6)
    size, number, sha256 = build(FLAGS.output_dir, max_bytes, FLAGS.overwrite)
    print(f"{size:,} bytes of {number:,} documents in {FLAGS.output_dir}")
    print(f"sha256 {sha256}")


def entry_point():
    define_flags()
    command_line.run(main)


if __name__ == "__main__":
    entry_point()
