"""Imports point down only (DESIGN.md, section 1); read from the sources, not run."""

import ast
import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parent.parent

# What each part may import of the package besides itself; a part is a folder or a
# module. Imports inside functions count as well.
FOUNDATION = {"errors", "files", "config"}
ALLOWED = {
    # L0
    "__init__": set(),
    "errors": set(),
    "files": {"errors"},
    "presets": set(),
    "hparams": {"errors"},
    "config": {"errors", "files", "hparams", "presets"},
    "command_line": {"errors"},
    # L1
    "data": FOUNDATION,
    "layers": {"errors"},  # plain arguments: no config
    # Below everything that is ELECTRA: any objective can be trained.
    "training": {"errors", "files"},
    # L2
    "encoder": FOUNDATION | {"layers", "training"},  # loads itself from a checkpoint
    # L3
    "pretraining": FOUNDATION | {"layers", "encoder", "training"},
    "finetuning": FOUNDATION | {"layers", "encoder", "training", "data"},
}
COMMANDS = ("run_", "tfrecords_tools")  # L5
# L4: model_folder, pretrain, pretrained, conversion, export, ...: all of the above and
# each other, but no command.


def sources():
    files = [*ROOT.glob("electra_tf/**/*.py"), *ROOT.glob("tfrecords_tools/*.py")]
    return sorted(f for f in files if "__pycache__" not in f.parts)


def part_of(module):
    """electra_tf.data.records -> data; tfrecords_tools.build_vocab -> itself."""
    names = module.split(".")
    if names[0] == "tfrecords_tools":
        return "tfrecords_tools"
    return names[1] if len(names) > 1 else "__init__"


def imported_modules(tree, known):
    """Dotted names of all that a module imports, `from x import y` as x or x.y."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if inner in known else node.module


def name_of(path):
    names = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(names[:-1] if names[-1] == "__init__" else names)


MODULES = {name_of(path): path for path in sources()}
TREES = {name: ast.parse(path.read_text()) for name, path in MODULES.items()}
OURS = ("electra_tf", "tfrecords_tools")
IMPORTS = {
    name: sorted(set(imported_modules(tree, MODULES))) for name, tree in TREES.items()
}


def ours(name):
    return [m for m in IMPORTS[name] if m.split(".")[0] in OURS]


def test_the_sources_are_found_and_their_imports_seen():
    assert "electra_tf.pretraining.objectives" in MODULES
    assert "electra_tf.encoder" in ours("electra_tf.pretraining.objectives")
    assert "electra_tf.data.records" in ours("electra_tf.data.pipeline")


@pytest.mark.parametrize("name", MODULES)
def test_a_module_imports_only_what_is_below_it(name):
    part = part_of(name)
    if part.startswith(COMMANDS):
        return
    for module in ours(name):
        target = part_of(module)
        assert not target.startswith(COMMANDS), f"{name} imports the command {module}"
        if part in ALLOWED and target != part:
            assert target in ALLOWED[part], f"{name} imports {module}"


def test_nothing_imports_a_run():
    for name in MODULES:
        for module in ours(name):
            assert not part_of(module).startswith("run_"), f"{name} imports {module}"


def test_imports_go_in_no_circle():
    def visit(name, above):
        assert name not in above, " -> ".join([*above, name])
        if name not in done:
            for module in ours(name):
                visit(module, [*above, name])
            done.add(name)

    done = set()
    for name in MODULES:
        visit(name, [])


def test_nothing_is_named_after_not_knowing_where_it_belongs():
    for name in MODULES:
        parts = set(name.split("."))
        assert not parts & {"utils", "util", "helpers", "common", "misc"}, name


@pytest.mark.parametrize("old", ["compat.v1", "tf.contrib", "tf_keras", "tf.estimator"])
def test_nothing_is_left_of_tensorflow_1(old):
    for name, path in MODULES.items():
        assert old not in path.read_text(), name


@pytest.mark.parametrize(
    "module",
    [
        "electra_tf",
        "electra_tf.config",
        "electra_tf.command_line",
        "electra_tf.data.tokenization",
        "electra_tf.data.records",
        "electra_tf.data.dataset_builder",
        "electra_tf.data.pipeline",
    ],
)
def test_what_needs_no_tensorflow_imports_none(module):
    script = (
        f"import sys, {module}\n"
        "print(sorted({'tensorflow', 'keras', 'keras_nlp'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.stdout == "[]\n", done.stderr
