"""Hyper-parameters as people write them: read from JSON or TOML, checked by type."""

import difflib
import json
import tomllib
import types
import typing

from electra_tf.errors import InputError


def parse_hparams(hparams):
    """Reads the original's `--hparams`: JSON text, or the path of a JSON file."""
    if hparams is None:
        return {}
    if isinstance(hparams, dict):
        return hparams
    text, place = hparams, "--hparams"
    if not hparams.strip():
        raise InputError("--hparams is empty: leave it out, or give a JSON object")
    # A command prompt that doesn't know single quotes hands them on.
    if hparams.lstrip()[:1] not in ("{", "[", "'", '"'):
        place = f"--hparams file {hparams}"
        try:
            with open(hparams, encoding="utf-8") as f:
                text = f.read()
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(
                f"{place}: neither a JSON object nor a readable file ({error})"
            ) from None
    try:
        values = json.loads(text)
    except (ValueError, RecursionError) as error:  # no JSON, or too deep
        raise InputError(
            f"{place} is not valid JSON: {error} (received {text[:60]!r}; "
            'quote it as --hparams \'{"model_size": "base"}\', at a Windows prompt '
            'as --hparams "{\\"model_size\\": \\"base\\"}")'
        ) from None
    if not isinstance(values, dict):
        raise InputError(f"{place} must be a JSON object, got {type(values).__name__}")
    return values


def read_toml(path):
    try:
        with open(path, "rb") as f:
            return tomllib.load(f)
    except OSError as error:
        raise InputError(f"--config {path} can't be read: {error}") from None
    except (ValueError, RecursionError) as error:  # no TOML, too deep, no UTF-8
        raise InputError(f"--config {path} is not valid TOML: {error}") from None


def check_type(name, value, wanted, source):
    """Returns `value` as the type that the field declares, or says what is wrong."""
    optional = isinstance(wanted, types.UnionType)
    kinds = [k for k in typing.get_args(wanted) if k is not type(None)]
    kind = kinds[0] if optional else wanted
    if value is None and optional:
        return None
    if kind is float and type(value) is int and abs(value) < 2**1000:
        return float(value)
    if kind is int and isinstance(value, float) and value.is_integer():
        return int(value)  # 1e6 is how people write a million in JSON
    if not isinstance(value, kind) or (kind is not bool and isinstance(value, bool)):
        raise InputError(
            f"{name} in {source} must be {kind.__name__}, got "
            f"{type(value).__name__} {value!r}"
        )
    return value


def unknown_name(name, known, source):
    near = difflib.get_close_matches(str(name), sorted(known), 1, 0.5)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return f"unknown hyper-parameter {name!r} in {source}{hint}"
