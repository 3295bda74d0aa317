"""A corpus to a folder of pre-training records, by any number of processes.

The main process reads documents, workers tokenise them and make the examples, and
the main process deals these round-robin over the shards in the order of the corpus:
the files are the same, byte for byte, whatever the number of processes.

Under compat="original" each process is a job of the original's writer instead, with
its share of the files and of the shards; every job starts from the same seed, as the
original's forked jobs share one random state.
"""

import collections
import contextlib
import dataclasses
import os

from electra_tf.data import documents, records
from electra_tf.data.corpus_files import list_text_files
from electra_tf.data.example_workers import ExampleWorker, run_in_order
from electra_tf.data.records_folder import RecordsFolder, remove_records
from electra_tf.data.segments import MIN_SEQ_LENGTH
from electra_tf.data.tokenization import TokenizerSettings, Vocabulary, WordSplitter
from electra_tf.errors import InputError
from electra_tf.files import file_size

ORIGINAL_NUM_OUT_FILES = 1000
# A reader opens a shard for this many examples or bytes at least (up to 64 shards
# the examples decide).
EXAMPLES_PER_SHARD = 5_000
BYTES_PER_SHARD = 50_000_000


@dataclasses.dataclass(frozen=True)
class BuilderSettings:
    """What decides about the examples; kept in the manifest."""

    max_seq_length: int = 128
    blanks_separate_docs: bool = True
    num_out_files: int | None = None
    eval_fraction: float = 0.0
    seed: int = 0
    compat: str = "none"
    # Matters to compat="original" alone; None otherwise.
    num_jobs: int | None = None

    def __post_init__(self):
        if self.max_seq_length < MIN_SEQ_LENGTH:
            raise InputError(
                f"max_seq_length is {self.max_seq_length}, wanted at least "
                f"{MIN_SEQ_LENGTH}: [CLS] and [SEP] take up to three places"
            )
        if not 0 <= self.eval_fraction < 1:
            raise InputError(
                f"eval_fraction is {self.eval_fraction}, wanted a part of the "
                "documents from 0 up to, but not including, 1"
            )
        if self.num_out_files is not None and self.num_out_files < 1:
            raise InputError(f"num_out_files is {self.num_out_files}, wanted 1 or more")
        if self.compat not in ("none", "original"):
            raise InputError(f"compat is {self.compat!r}, wanted 'none' or 'original'")
        if self.compat == "original" and self.eval_fraction:
            raise InputError(
                "the original's builder makes no evaluation set: leave out "
                "eval_fraction or compat=original"
            )


@dataclasses.dataclass
class Summary:
    """What a build did; `counts` are of training and evaluation together."""

    counts: collections.Counter
    manifest: records.Manifest
    eval_manifest: records.Manifest | None
    bad_lines: list  # (path, line number) of lines that aren't UTF-8
    old_evaluation: str = ""  # what became of the evaluation records of a build before
    unreachable: int = 0  # pieces that no text gives with these tokenizer settings


def build(
    corpus_dir,
    vocab_file,
    output_dir,
    settings=BuilderSettings(),
    tokenizer_settings=TokenizerSettings(),
    num_processes=1,
    eval_output_dir=None,
    overwrite=False,
    on_progress=lambda bytes_done, bytes_in_all: None,
):
    """Builds `output_dir` and, with an eval_fraction, `eval_output_dir`.

    Raises:
        InputError: nothing to read, a wrong vocabulary, or records in the way.
    """
    vocabulary = Vocabulary.load(vocab_file)
    files, total = _corpus(corpus_dir)
    if settings.compat == "original":
        settings = dataclasses.replace(settings, num_jobs=num_processes)
    number = choose_num_out_files(settings, total)
    _check_processes(num_processes, number, settings)
    folders = {False: RecordsFolder(output_dir, number, overwrite)}
    if settings.eval_fraction:
        eval_dir = eval_output_dir or default_eval_dir(output_dir)
        if os.path.abspath(eval_dir) == os.path.abspath(output_dir):
            raise InputError(f"training and evaluation records both go to {eval_dir}")
        number = choose_num_out_files(settings, total * settings.eval_fraction)
        folders[True] = RecordsFolder(eval_dir, number, overwrite)
    worker = ExampleWorker(vocab_file, tokenizer_settings, settings)
    bad_lines = []
    with contextlib.ExitStack() as stack, _naming_full_disk(output_dir):
        for folder in folders.values():
            stack.enter_context(folder)
        if settings.compat == "original":
            _run_jobs(worker, files, folders[False], num_processes, on_progress)
        else:
            corpus = _documents(files, settings, total, on_progress, bad_lines)
            _run_stream(worker, corpus, folders, num_processes)
        manifests = _publish(folders, settings, tokenizer_settings, vocabulary)
    counts = collections.Counter()
    for folder in folders.values():
        counts.update(folder.counts)
    old_evaluation = ""
    if True not in manifests:
        eval_dir = eval_output_dir or default_eval_dir(output_dir)
        old_evaluation = _outdated_evaluation(eval_dir, overwrite)
    return Summary(
        counts,
        manifests[False],
        manifests.get(True),
        bad_lines,
        old_evaluation,
        unreachable_pieces(vocabulary, tokenizer_settings),
    )


def _outdated_evaluation(folder, overwrite):
    """Removes or reports evaluation records whose documents are training text now."""
    if overwrite and remove_records(folder):
        return f"the evaluation records of the build before, in {folder}, were removed"
    if records.read_manifest(folder):
        return (
            f"{folder} holds evaluation records of another build, whose documents may "
            "be among the training text now"
        )
    return ""


def unreachable_pieces(vocabulary, settings):
    """Counts pieces that no text gives: upper case or accents under these settings."""
    splitter = WordSplitter(settings)
    pieces = (
        token.removeprefix("##")
        for token in vocabulary.tokens
        if not (token.startswith("[") and token.endswith("]"))
    )
    return sum(piece != "".join(splitter.split(piece)) for piece in pieces)


def default_eval_dir(output_dir):
    return os.path.join(
        os.path.dirname(os.fspath(output_dir).rstrip("/")), "eval_tfrecords"
    )


def choose_num_out_files(settings, corpus_bytes):
    """Returns the number of shards: given, the original's, or by the corpus' size."""
    if settings.num_out_files:
        return settings.num_out_files
    if settings.compat == "original":
        return ORIGINAL_NUM_OUT_FILES
    # English has 4 to 5 bytes a token, a record about 5 bytes a place.
    examples = corpus_bytes / (4.5 * settings.max_seq_length)
    by_bytes = examples * 5 * settings.max_seq_length / BYTES_PER_SHARD
    return int(max(1, min(examples / EXAMPLES_PER_SHARD, max(64, by_bytes))))


def _corpus(corpus_dir):
    files = list_text_files(corpus_dir)
    for path in files:
        if os.path.basename(path).startswith("pretrain_data.tfrecord-"):
            raise InputError(
                f"the corpus {corpus_dir} holds records ({path}): keep the text files "
                "in a folder of their own"
            )
    return files, sum(map(file_size, files))


def _check_processes(num_processes, num_out_files, settings):
    if num_processes < 1:
        raise InputError(f"num_processes is {num_processes}, wanted 1 or more")
    if settings.compat == "original" and num_out_files < num_processes:
        raise InputError(
            f"with compat=original each of the {num_processes} processes writes files "
            f"of its own: num_out_files is {num_out_files}, wanted {num_processes} "
            "or more"
        )


def _documents(files, settings, total, on_progress, bad_lines):
    done = 0

    def on_read(number_of_bytes):
        nonlocal done
        done += number_of_bytes
        on_progress(done, total)

    for path in files:
        found = documents.read_documents(
            path,
            settings.blanks_separate_docs,
            on_error=lambda *where: bad_lines.append(where),
            on_read=on_read,
        )
        yield from documents.choose_for_eval(
            found, settings.eval_fraction, settings.seed
        )


def _run_stream(worker, corpus, folders, num_processes):
    calls = ((batch,) for batch in documents.in_batches(corpus))
    for results in run_in_order(worker, "batch", calls, num_processes):
        for for_eval, framed, counts in results:
            folders[for_eval].add(framed, counts)


def _run_jobs(worker, files, folder, num_jobs, on_progress):
    paths = folder.shard_paths
    calls = [(job, files, paths[job::num_jobs]) for job in range(num_jobs)]
    entries = {}
    results = run_in_order(worker, "original_job", calls, num_jobs)
    for job, (written, counts) in enumerate(results):
        folder.count(counts)
        entries.update((entry["name"], entry) for entry in written)
        on_progress(job + 1, num_jobs)
    folder.finish([entries[os.path.basename(path)] for path in paths])


def _publish(folders, settings, tokenizer_settings, vocabulary):
    """Finishes all files before the first one gets its name; returns manifests."""
    if not folders[False].counts["examples"]:
        read = sum(folder.counts["tokens_read"] for folder in folders.values())
        raise InputError(
            "every document fell to the evaluation set: lower eval_fraction or add text"
            if read
            else "the corpus holds no text: all its lines are blank"
        )
    folders = {k: f for k, f in folders.items() if f.counts["examples"]}
    for folder in folders.values():
        if not folder.entries:
            folder.finish()
    kept = ("documents", "lines", "tokens_read", "tokens_kept", "examples")
    manifests = {
        for_eval: records.Manifest(
            max_seq_length=settings.max_seq_length,
            settings=dataclasses.asdict(settings),
            tokenizer={
                "do_lower_case": tokenizer_settings.do_lower_case,
                # What it comes to: true or false.
                "strip_accents": tokenizer_settings.strips_accents,
            },
            vocabulary={"size": vocabulary.size, "sha256": vocabulary.sha256},
            counts={name: folder.counts[name] for name in kept},
            shards=folder.entries,
        )
        for for_eval, folder in folders.items()
    }
    for for_eval, folder in folders.items():
        folder.publish(manifests[for_eval])
    return manifests


@contextlib.contextmanager
def _naming_full_disk(output_dir):
    """A failed write knows no file name: says where the records were to go."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = os.fspath(output_dir)
        raise
