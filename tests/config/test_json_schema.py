"""The JSON Schema of the configuration says what the reader takes."""

from __future__ import annotations

import json
import re
import sys
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from jsonschema import Draft7Validator

from embercoach import rulebook
from embercoach.config import ConfigError, schema
from embercoach.config.configuration_files import ConfigFile, read
from embercoach.config.patterns import check_pattern
from embercoach.config.schema import KEYS, SIMULATOR_KEYS, layer_of
from embercoach.config.settings import Settings

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
SCHEMA = schema.json_schema()
VALID = Draft7Validator(SCHEMA)


def loads(table: dict[str, Any]) -> bool:
    try:
        layer_of(ConfigFile(Path("embercoach.toml"), table, ""))
    except ConfigError:
        return False
    return True


def test_the_shipped_schema_is_the_generated_one() -> None:
    shipped = files("embercoach.config").joinpath("embercoach.schema.json").read_text("utf-8")
    assert shipped == schema.rendered_json_schema(), "run `python -m tests.regenerate schema`"


def test_the_schema_is_one() -> None:
    Draft7Validator.check_schema(SCHEMA)


def test_the_defaults_are_those_of_the_settings() -> None:
    plain = Settings(Path())
    assert loads({key.name: key.default for key in KEYS if key.default is not None})
    defaults = {key.name: key.default for key in KEYS}
    assert defaults["profile"] == plain.profile
    assert tuple(defaults["exclude"]) == plain.exclude
    assert defaults["show-notes"] is plain.show_notes
    assert defaults["respect-gitignore"] is plain.respect_gitignore
    assert {key.name for key in SIMULATOR_KEYS} == set(plain.simulator.__slots__)


def test_our_own_configuration_and_the_documented_ones_are_valid() -> None:
    own = read(ROOT / "pyproject.toml")
    assert own is not None
    VALID.validate(own.table)
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    examples = [
        block.partition("```")[0].partition("\n")
        for page in pages
        for block in page.read_text(encoding="utf-8").split("```toml")[1:]
    ]
    ours = []
    for title, _, text in examples:
        table = tomllib.loads(text)
        found = table if "embercoach.toml" in title else table.get("tool", {}).get("embercoach")
        ours += [] if found is None else [found]
    assert ours
    for table in ours:
        VALID.validate(table)


def test_every_beginning_of_a_code_is_a_selector() -> None:
    selector = Draft7Validator(SCHEMA["definitions"]["selector"])
    codes = rulebook.static_codes()
    beginnings = {code[:end] for code in codes for end in range(1, len(code) + 1)}
    assert selector.is_valid("ALL")
    pattern = re.compile(SCHEMA["definitions"]["selector"]["anyOf"][1]["pattern"])
    assert all(map(pattern.search, beginnings))
    for word in sorted(beginnings)[::23]:
        for odd in (f"{word}~", f" {word}"):
            assert not selector.is_valid(odd)
            assert not loads({"select": [odd]})
        assert selector.is_valid(word.lower())
        assert loads({"select": [word.lower()]})


NAMES = st.from_regex(r"[A-Za-z_]\w{0,5}(\.[A-Za-z_]\w{0,4}){0,2}", fullmatch=True)


def texts(pattern: str) -> st.SearchStrategy[str]:
    """Texts of a pattern. One that looks ahead is for names, and would take long to make up."""
    likely = NAMES if "(?!" in pattern else st.from_regex(pattern)
    # To JSON Schema `$` is the very end; Python takes a line's end before it.
    whole = re.compile(pattern.replace("$", r"\Z"))
    return likely.filter(lambda text: text.isascii() and bool(whole.search(text)))


def values(form: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Values that a form of the schema allows, as TOML would hold them."""
    if "$ref" in form:
        return values(SCHEMA["definitions"][form["$ref"].rpartition("/")[2]])
    if "enum" in form:
        return st.sampled_from(form["enum"])
    if "anyOf" in form:
        return st.one_of(map(values, form["anyOf"]))
    kind = form.get("type", "string")
    if kind == "string":
        return texts(form["pattern"]) if "pattern" in form else st.text(max_size=9)
    if kind == "boolean":
        return st.booleans()
    if kind == "integer":
        return st.integers(form["minimum"], form.get("maximum"))
    if kind == "number":
        return st.integers(1, form["maximum"]) | st.floats(
            form["exclusiveMinimum"], form["maximum"], exclude_min=True
        )
    if kind == "array":
        return st.lists(values(form["items"]), max_size=4)
    if isinstance(form.get("additionalProperties"), dict):
        return st.dictionaries(
            values(form["propertyNames"]), values(form["additionalProperties"]), max_size=3
        )
    members = {name: values(member) for name, member in form["properties"].items()}
    needed = {name: members.pop(name) for name in form.get("required", ())}
    return st.fixed_dictionaries(needed, optional=members)


def beyond_the_schema(table: dict[str, Any]) -> bool:
    """Whether the reader may refuse what no schema can."""
    named = [*table.get("per-file-ignores", ()), *table.get("per-file-profiles", ())]
    named += [*table.get("exclude", ()), *table.get("extend-exclude", ())]
    if any(check_pattern(pattern) for pattern in named):
        return True
    for origins in table.get("kernel-builders", {}).values():
        taken = [origin for origin in origins.values() if not isinstance(origin, dict)]
        if len(set(map(repr, taken))) < len(taken):
            return True
    return False


@settings(
    max_examples=settings().max_examples // 7,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
@given(values(SCHEMA))
def test_what_the_schema_allows_loads(table: dict[str, Any]) -> None:
    VALID.validate(table)
    assume(not beyond_the_schema(table))
    layer_of(ConfigFile(Path("embercoach.toml"), table, ""))


@pytest.mark.exhaustive
@pytest.mark.parametrize("key", [key.name for key in KEYS if key.default is not None])
def test_each_key_alone(key: str) -> None:
    """Every key takes what the schema allows: no mistake hides behind another key's."""
    form = SCHEMA["properties"][key]

    @settings(max_examples=4, suppress_health_check=list(HealthCheck))
    @given(values(form))
    def check(value: Any) -> None:
        assume(not beyond_the_schema({key: value}))
        assert loads({key: value})

    check()


BUILDER = "pack.kernel.Kernel"


@pytest.mark.parametrize(
    "table",
    [
        {"selct": []},
        {"select": [1]},
        {"ignore": ["SIM-RACE-001"]},
        {"respect-gitignore": 1},
        {"baseline": "a\0b"},
        {"rules-url": 3},
        {"rules-url": "https://example.org:port/{code}"},
        {"rules-url": "javascript:alert(1)//{code}"},
        {"rules-url": "file:///rules/{code}.md"},
        {"rules-url": "rules/{code}.md"},
        {"rules-url": "https://example.org/{code} onclick=alert(1)"},
        {"rules-url": 'https://example.org/{code}"'},
        {"rules-url": "https://example.org/\n{code}"},
        {"per-file-ignores": ["x"]},
        {"per-file-ignores": {"t/**": "DTYPE"}},
        {"per-file-ignores": {" ": ["DTYPE"]}},
        {"per-file-profiles": {"t/**": "loud"}},
        {"per-file-profiles": {"t/**": ["ember"]}},
        {"extend": 3},
        {"extend": "base.json"},
        {"extend": "a\0.toml"},
        {"required-version": 0.1},
        {"required-version": ""},
        {"severity": "error"},
        {"severity": {"DTYPE": "eror"}},
        {"severity": {"DTYPE": ["error"]}},
        {"severity": {"DTIPE": "error"}},
        {"severity": {"SIM-RACE-001": "error"}},
        {"simulator": 1},
        {"simulator": {"timout": 3}},
        {"simulator": {"timeout": True}},
        {"simulator": {"memory": -1}},
        {"simulator": {"memory": 10**400}},
        {"simulator": {"compiler": ""}},
        {"simulator": {"checks": "no"}},
        {"simulator": {"allow": ["DTYPE-001"]}},
        {"kernel-builders": []},
        {"kernel-builders": {"a.class": {"source": 0}}},
        {"kernel-builders": {"mlx.core": {"source": 0}}},
        {"kernel-builders": {BUILDER: "body"}},
        {"kernel-builders": {BUILDER: {}}},
        {"kernel-builders": {BUILDER: {"name": "name"}}},
        {"kernel-builders": {BUILDER: {"sorce": 0}}},
        {"kernel-builders": {BUILDER: {"source": "lambda"}}},
        {"kernel-builders": {BUILDER: {"source": -1}}},
        {"kernel-builders": {BUILDER: {"source": True}}},
        {"kernel-builders": {BUILDER: {"source": 0, "header": {"valu": ""}}}},
        {"kernel-builders": {BUILDER: {"source": 0, "header": {"value": 1}}}},
        {"kernel-builders": {BUILDER: {"source": 0, "input_names": {"value": [1]}}}},
        {"kernel-builders": {BUILDER: {"source": 0, "atomic_outputs": {"value": 0}}}},
        {"kernel-builders": {BUILDER: {"source": 0, "compile_options": {"value": ""}}}},
    ],
    ids=json.dumps,
)
def test_mistakes_are_refused_by_both(table: dict[str, Any]) -> None:
    assert not VALID.is_valid(table)
    assert not loads(table)


@pytest.mark.parametrize(
    "table",
    [
        {"kernel-builders": {"mlxish.Kernel": {"source": 0}}},
        {"rules-url": "https://example.org/x?rule={code}&v=%20{code}"},
    ],
    ids=json.dumps,
)
def test_what_looks_odd_is_taken_by_both(table: dict[str, Any]) -> None:
    assert VALID.is_valid(table)
    assert loads(table)
