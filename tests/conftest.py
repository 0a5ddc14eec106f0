"""Settings of the whole suite: hypothesis, bytecode, garbage collection, and what is collected."""

from __future__ import annotations

import gc
import inspect
import os
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import is_hypothesis_test, settings

from tests import sampling
from tests.precompiled import use_precompiled_header
from tests.rows import cases_as_rows

if TYPE_CHECKING:
    from collections.abc import Generator

    from xdist.remote import Producer
    from xdist.scheduler import LoadScopeScheduling

TESTS = Path(__file__).parent
RULES = TESTS.parent / "rules"
#: Folders of the tests that `-m commit` selects.
COMMIT = {"checks", "engine", "metal", "rules"}
#: Modules whose tests share what one of them took minutes for. With `--dist loadgroup` each runs on
#: one worker.
ON_ONE_WORKER = {"tests/accuracy/test_accuracy.py", "tests/simulator/packages/test_upstream.py"}
#: The default suite has one of so many simulated cases of each test of the kernel pack.
SIMULATED = 12

# No test here is timed: an example may take long on a busy machine. The default suite draws the
# same examples each time. The gate runs the tests marked `generated` once more, in `thorough`.
settings.register_profile("thorough", deadline=None, max_examples=100)
settings.register_profile("default-suite", deadline=None, max_examples=20, derandomize=True)
settings.load_profile("default-suite")

# Tests start Python some hundred times. Without bytecode each start compiles the package again, and
# each worker of xdist rewrites the assertions of every test module: a minute of CPU time in all.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the seeded sample."""
    sampling.add_options(parser)


@pytest.hookimpl(tryfirst=True)  # before Hypothesis reads its seed
def pytest_configure(config: pytest.Config) -> None:
    """Choose the sample's seed."""
    sampling.choose_seed(config)


def pytest_sessionstart(session: pytest.Session) -> None:
    """Precompile the header of what MLX compiles on a CPU, before xdist starts its workers."""
    if cache := getattr(session.config, "cache", None):
        use_precompiled_header(cache.mkdir("precompiled"))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Import only the modules that `-m commit`, or `-k` with a rule's code, selects from."""
    if collection_path.parent != TESTS or not collection_path.is_dir():
        return None
    if config.option.markexpr == "commit" and collection_path.name not in COMMIT:
        return True
    code = config.option.keyword
    if code and (RULES / f"{code}.md").is_file() and collection_path.name != "rules":
        return True
    return None


def pytest_pycollect_makeitem(
    collector: pytest.Module | pytest.Class, name: str, obj: object
) -> pytest.Function | None:
    """Check the cases of a test in one test, in a run of whole files."""
    config = collector.config
    if config.option.keyword or any("::" in argument for argument in config.args):
        return None
    if not isinstance(collector, pytest.Module) or not collector.funcnamefilter(name):
        return None
    return cases_as_rows(collector, name, obj) if inspect.isfunction(obj) else None


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling | None:
    """Group tests by module: pytest 9.2 ignores the names that xdist 3.8 gives its own groups."""
    if config.getvalue("dist") != "loadgroup":
        return None
    from xdist.scheduler import LoadScopeScheduling

    class SomeModulesTogether(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            module = nodeid.partition("::")[0]
            return module if module in ON_ONE_WORKER else nodeid

    return SomeModulesTogether(config, log)


@pytest.hookimpl(tryfirst=True)  # before `-m` chooses
def pytest_collection_modifyitems(items: list[pytest.Item], config: pytest.Config) -> None:
    """Mark cases as `exhaustive`, and what is left of some folders as `commit`."""
    seen: Counter[tuple[Path, str]] = Counter()
    declared = [line.partition(":")[0] for line in config.getini("markers")]
    default = " ".join(config.getini("addopts"))
    left_out = {name for name in declared if f"not {name}" in default}
    folders = {path: path.relative_to(TESTS).parts[0] for path in {item.path for item in items}}
    for item in items:
        every = sample_of(item)
        if every is not None:
            test = (item.path, item.originalname)  # type: ignore[attr-defined]
            if every == 0 or seen[test] % every:
                item.add_marker(pytest.mark.exhaustive)
            seen[test] += 1
        if takes_examples_of_profile(item):
            item.add_marker(pytest.mark.generated)
        folder = folders[item.path]
        if folder in COMMIT and not left_out & {mark.name for mark in item.iter_markers()}:
            item.add_marker(pytest.mark.commit)


def takes_examples_of_profile(item: pytest.Item) -> bool:
    """Return whether the Hypothesis profile decides how many examples a test generates."""
    function = getattr(item, "obj", None)
    if function is None or not is_hypothesis_test(function):
        return False
    chosen = getattr(function, "_hypothesis_internal_use_settings", settings())
    # Slow tests take a seventh.
    return chosen.max_examples in {settings().max_examples, settings().max_examples // 7}


def sample_of(item: pytest.Item) -> int | None:
    """One of how many cases of a test is in the default suite; 0 for none, None for all."""
    marker = item.get_closest_marker("sampled")
    case = getattr(item, "callspec", None)
    places = {case.params.get("device"), case.params.get("backend")} - {None} if case else set()
    if places and "simulator" not in places:
        return None
    if marker is not None:
        return int(marker.args[0])
    return SIMULATED if places else None


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep the garbage collector from walking the collected tests over and over."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()
