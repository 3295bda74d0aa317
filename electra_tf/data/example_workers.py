"""What the processes of a dataset builder do: documents in, framed records out.

`run_in_order` serves any worker, the counter of words too.
"""

import collections
import concurrent.futures
import contextlib
import multiprocessing
import random
import signal

from electra_tf.data import records, segments
from electra_tf.data.corpus_files import read_lines
from electra_tf.data.packing import pack
from electra_tf.data.tokenization import Tokenizer, Vocabulary
from electra_tf.errors import InputError


class ExampleWorker:
    """Makes records; built anew in each process from its arguments."""

    def __init__(self, vocab_file, tokenizer_settings, settings):
        self._arguments = (vocab_file, tokenizer_settings, settings)
        self._settings = settings
        self._vocabulary = Vocabulary.load(vocab_file)
        self._tokenizer = Tokenizer(self._vocabulary, tokenizer_settings)
        self._counts = collections.Counter()

    def __reduce__(self):
        return type(self), self._arguments

    def batch(self, documents):
        """Returns (for_eval, framed records, counts) of each document."""
        return [(d.for_eval, *self._document(d)) for d in documents]

    def _document(self, document):
        self._counts = collections.Counter(
            documents=int(document.is_start), lines=len(document.lines)
        )
        length, seed = self._settings.max_seq_length, self._settings.seed
        examples = segments.document_examples(
            self._encode, document.lines, length, seed
        )
        return [self._record(example) for example in examples], self._counts

    def original_job(self, job_id, files, shard_paths):
        """Writes the shards of one job of the original; returns entries and counts.

        The shards keep their temporary names.
        """
        settings = self._settings
        self._counts = collections.Counter(documents=0)
        rng = random.Random(settings.seed)
        order = segments.original_file_order(files, job_id, settings.num_jobs, rng)
        builder = segments.OriginalExampleBuilder(
            self._encode, settings.max_seq_length, rng
        )
        separated = settings.blanks_separate_docs
        writers = [records.ShardWriter(path) for path in shard_paths]
        try:
            for path in order:
                lines = self._counted(read_lines(path, chunk_bytes=1 << 30))
                for example in segments.original_examples(builder, lines, separated):
                    writer = writers[self._counts["examples"] % len(writers)]
                    writer.write_framed(self._record(example))
            return [writer.finish() for writer in writers], self._counts
        except BaseException:
            for writer in writers:
                writer.discard()
            raise

    def _counted(self, lines):
        inside = False
        for line in lines:
            blank = not line.strip()
            self._counts["lines"] += not blank
            self._counts["documents"] += not blank and not inside
            inside = not blank or (inside and not self._settings.blanks_separate_docs)
            yield line

    def _encode(self, text):
        ids = self._tokenizer.encode(text)
        self._counts["tokens_read"] += len(ids)
        self._counts["unknown"] += ids.count(self._vocabulary.unk_id)
        return ids

    def _record(self, example):
        first, second = example
        self._counts["examples"] += 1
        self._counts["tokens_kept"] += len(first) + len(second)
        features = pack(
            first,
            second,
            self._settings.max_seq_length,
            self._vocabulary.cls_id,
            self._vocabulary.sep_id,
            # The original pads with 0, whatever the vocabulary says.
            0 if self._settings.compat == "original" else self._vocabulary.pad_id,
        )
        return records.frame(records.serialize_example(features))


def run_in_order(worker, method, calls, num_processes):
    """Yields `worker.method(*call)` for each of `calls`, in their order.

    Few calls are under way at a time, so that memory is bounded.
    """
    if num_processes == 1:
        for call in calls:
            yield getattr(worker, method)(*call)
        return
    with _pool(worker, num_processes) as pool:
        under_way = collections.deque()
        for call in calls:
            with contextlib.nullcontext() if under_way else _sigint_held_back():
                under_way.append(pool.submit(_call_worker, method, *call))
            if len(under_way) > 2 * num_processes:
                yield under_way.popleft().result()
        while under_way:
            yield under_way.popleft().result()


@contextlib.contextmanager
def _pool(worker, num_processes):
    pool = concurrent.futures.ProcessPoolExecutor(
        num_processes,
        multiprocessing.get_context("spawn"),
        initializer=_start_process,
        initargs=(worker,),
    )
    others = set(multiprocessing.active_children())
    try:
        yield pool
    except concurrent.futures.BrokenExecutor as error:
        raise InputError(
            "a worker process has died, probably for want of memory: try again with "
            "a smaller num_processes"
        ) from error
    except BaseException:
        # Interrupted: a job of the original may have hours to go.
        for process in set(multiprocessing.active_children()) - others:
            process.kill()  # one that is terminated may hold a lock of the others
        # A worker may have been killed in the middle of an answer. As long as this
        # process holds the pipe's other end too, whoever waits for the rest, and with
        # it the interpreter's exit, waits for ever.
        writer = getattr(getattr(pool, "_result_queue", None), "_writer", None)
        if writer is not None:
            writer.close()
        pool.shutdown(cancel_futures=True)
        raise
    pool.shutdown()


@contextlib.contextmanager
def _sigint_held_back():
    """Processes started meanwhile never see Ctrl-C, which reaches the whole group.

    The main process sees it afterwards, and ends its workers. (`_start_process` comes
    after a second of imports.)
    """
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


_worker = None  # of this process


def _start_process(worker):
    global _worker
    _worker = worker
    # Ctrl-C reaches the whole group; the main process ends its workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _call_worker(method, *arguments):
    return getattr(_worker, method)(*arguments)
