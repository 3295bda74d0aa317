"""Two logical CPU devices, the golden folder, and the marks of the test suite."""

import os
import pathlib

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

import pytest

HERE = pathlib.Path(__file__).parent


def golden_dir():
    return pathlib.Path(os.environ.get("ELECTRA_GOLDEN_DIR", HERE / "golden"))


@pytest.fixture(scope="session")
def golden():
    """The folder of numbers recorded from the original release."""
    return golden_dir()


@pytest.fixture(scope="session")
def english_vocab():
    """The 30,522-piece vocabulary of the original, which the project may not hold."""
    for folder in (golden_dir(), golden_dir().parent):
        if (folder / "vocab.txt").exists():
            return folder / "vocab.txt"
    pytest.skip("the original's vocab.txt is not beside the golden files")
