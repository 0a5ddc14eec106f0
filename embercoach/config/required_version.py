"""The key ``required-version``: the versions of EmberCoach that a configuration is for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from embercoach.config.errors import ConfigError, type_name

if TYPE_CHECKING:
    from packaging.specifiers import SpecifierSet

    from embercoach.config.configuration_files import ConfigFile

#: The key's name.
REQUIRED_VERSION = "required-version"
#: Characters; longer numbers than Python reads would fit in more.
LONGEST = 1000
# What the schema allows is never too long.
_NUMBER = "[0-9]{1,9}"
_RELEASE = rf"{_NUMBER}(?:\.{_NUMBER}){{0,4}}"
_VERSION = rf"{_RELEASE}(?:(?:a|b|rc){_NUMBER})?(?:\.post{_NUMBER})?(?:\.dev{_NUMBER})?"
_CLAUSES = (
    rf"~= ?{_NUMBER}\.{_VERSION}",
    rf"(?:<=|>=|<|>) ?{_VERSION}",
    rf"(?:==|!=) ?(?:{_VERSION}|{_RELEASE}\.\*)",
)
_CLAUSE = f"(?:{'|'.join(_CLAUSES)})"


def check_required_version(value: Any) -> str:
    """Return the version specifiers of PEP 440, such as ``>=0.1,<1``.

    Raises:
        ConfigError: it is not a string, is too long, or has a mistake.
    """
    if not isinstance(value, str):
        raise ConfigError(f"must be a string, got {type_name(value)}")
    _specifiers(value)
    return value


def required_version_form() -> dict[str, Any]:
    """Return the JSON Schema of version specifiers, in the normalized form of PEP 440."""
    return {"type": "string", "pattern": f"^{_CLAUSE}(?:, ?{_CLAUSE}){{0,7}}$"}


def require_version(file: ConfigFile) -> None:
    """Refuse a configuration file for other versions of EmberCoach.

    This comes before its keys are checked: a later version may have more of them.

    Raises:
        ConfigError: this version is not among those that it requires.
    """
    value = file.table.get(REQUIRED_VERSION)
    if value is None:
        return
    line = file.line_of((REQUIRED_VERSION,))
    from embercoach import __version__

    try:
        check_required_version(value)
        # A project that asks for a minimum accepts the releases' own previews.
        met = _specifiers(value).contains(__version__, prereleases=True)
    except ConfigError as error:
        joint = "" if error.message.startswith("must ") else ":"
        raise ConfigError(f"{REQUIRED_VERSION}{joint} {error.message}", file.path, line) from error
    if not met:
        message = f"{REQUIRED_VERSION} must match EmberCoach {__version__}, got '{value}'"
        raise ConfigError(message, file.path, line)


def _specifiers(value: str) -> SpecifierSet:
    # Not at the top: most configurations require no version.
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    if not value.strip() or len(value) > LONGEST:
        raise ConfigError(f"must be a specifier of 1 to {LONGEST} characters such as '>=0.1'")
    try:
        return SpecifierSet(value)
    except InvalidSpecifier as error:
        raise ConfigError(f"must be a version specifier such as '>=0.1', got '{value}'") from error
