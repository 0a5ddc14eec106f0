"""A pytest session whose kernels are simulated: it reports each test's findings."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from contextlib import ExitStack

import pytest
from msgspec import Struct, field
from msgspec.structs import replace

from embercoach.config import ConfigError
from embercoach.config.setting_types import check_kind
from embercoach.files import shown_path
from embercoach.simulator.model import CODE_OF_COST, KernelFinding
from embercoach.simulator.profile.gpus import GPUS
from embercoach.simulator.reporting.messages import line_of, report
from embercoach.simulator.session.options import Options, begin, options_for
from embercoach.simulator.session.record import Recorder, merged, predictions
from embercoach.terminal_text import log_line

MARKER = "embercoach_allow"
TITLE = "EmberCoach simulator"


class _TestFindings(Struct):
    """The findings of one test so far.

    Attributes:
        fixtures: findings from its setup, which its call fails with.
        text: the report of the running phase.
    """

    fixtures: list[KernelFinding] = field(default_factory=list)
    text: str = ""


class SimulatedSession:
    """The hooks of a session with ``--embercoach-simulate``."""

    def __init__(self, simulation: ExitStack, recorder: Recorder, options: Options) -> None:
        self._simulation = simulation
        self._recorder = recorder
        self._options = options
        self._seen = 0
        self._allowed = frozenset(options.settings.allow)
        self._allowed_count = 0
        self._faulty: dict[str, int] = {}
        self._outside: list[tuple[str, list[KernelFinding]]] = []
        self._of_tests: dict[str, _TestFindings] = {}

    @classmethod
    def start(
        cls, config: pytest.Config, *, checks: bool, gpu: str | None = None
    ) -> SimulatedSession:
        """Activate the simulator.

        Args:
            config: of the session.
            checks: whether launches are checked.
            gpu: for which launches are profiled instead; None for none.

        Raises:
            ConfigError: a mistake in the project's configuration or in pytest's.
            SimulatorError: the simulator can't run here.
            ValueError: an unknown GPU.
        """
        options = options_for(config.rootpath)
        kinds = (check_kind(word) for word in config.getini(MARKER))
        settings = replace(
            options.settings,
            checks=options.settings.checks and checks,
            allow=(*options.settings.allow, *kinds),
        )
        options = replace(options, settings=settings, profile=gpu or options.profile)
        return cls(*begin(options), options)

    def close(self) -> None:
        """Give MLX back as it was, and leave the record that was asked for."""
        self._simulation.close()
        if self._options.record is not None:
            from embercoach.simulator.session.record import write

            write(self._recorder, self._options)

    def pytest_report_header(self) -> str:
        """Return the line of the session's header."""
        settings = self._options.settings
        checked = "checked" if settings.checks else "not checked"
        if self._options.profile is not None:
            checked = f"profiled for the {self._options.profile}"
        return f"embercoach: Metal kernels run on this CPU and are {checked}"

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Refuse markers with a mistake before any test runs."""
        for item in items:
            _allowed_by_markers(item)

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(
        self, collector: pytest.Collector
    ) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        """Yield modules that launch kernels when they are imported."""
        self._put_outside("before collection")
        result = yield
        self._put_outside(f"collecting {collector.nodeid or 'the session'}")
        return result

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None, None, None]:
        """Fixtures' findings wait for the call, which they fail."""
        self._put_outside("between tests")
        found = self._of_tests[item.nodeid] = _TestFindings()
        try:
            yield
        except BaseException:
            found.text = self._text(item, self._new(item), "in its setup ")
            raise
        found.fixtures = self._new(item)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, None, None]:
        """Fail a test whose launches have findings, or add them to its failure."""
        found = self._of_tests[item.nodeid]
        try:
            yield
        except BaseException:
            found.text = self._text(item, [*found.fixtures, *self._new(item)])
            raise
        found.text = self._text(item, [*found.fixtures, *self._new(item)])
        if found.text:
            pytest.fail(found.text, pytrace=False)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Generator[None, None, None]:
        """Fail the teardown for findings of launches in it."""
        found = self._of_tests[item.nodeid]
        found.text = ""
        yield
        found.text = self._text(item, self._new(item), "in its teardown ")
        if found.text:
            pytest.fail(found.text, pytrace=False)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Add the findings as a section to a test that failed by itself."""
        result = yield
        text = self._of_tests[item.nodeid].text if item.nodeid in self._of_tests else ""
        if text and not result.passed and text not in result.longreprtext:
            result.sections.append((TITLE, text))
        return result

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        """A test is over."""
        self._of_tests.pop(nodeid, None)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Findings that no test is to blame for fail the session."""
        self._put_outside("at the end of the session")
        if self._outside and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Launches, findings outside of tests, and notes."""
        terminalreporter.section(TITLE)
        for where, findings in self._outside:
            terminalreporter.write_line(f"{_counted(len(findings), 'finding')} {where}:")
            terminalreporter.write_line(_joined(findings))
            terminalreporter.write_line("")
        for note in self._recorder.notes:
            if note.kind not in self._allowed:
                terminalreporter.write_line(_in_short(note))
        if self._options.profile is not None:
            for line in predictions(self._recorder.profiles, GPUS[self._options.profile]):
                terminalreporter.write_line(log_line(line))
        terminalreporter.write_line(self._summary())

    def _summary(self) -> str:
        launches = self._recorder.launches
        kernels = len({launch.kernel for launch in launches})
        seconds = sum(launch.seconds for launch in launches)
        inside = sum(self._faulty.values())
        found = inside + sum(len(findings) for _, findings in self._outside)
        ran = f"{_counted(len(launches), 'launch', 'es')} of {_counted(kernels, 'kernel')}"
        parts = [f"{ran} ({seconds:.2f} s in them)", _counted(found, "finding")]
        if inside:
            those = "" if inside == found else f", {inside} of them"
            parts[-1] += f"{those} in {_counted(len(self._faulty), 'test')}"
        if self._allowed_count:
            parts.append(f"{self._allowed_count} allowed")
        if notes := [n for n in self._recorder.notes if n.kind not in self._allowed]:
            parts.append(_counted(len(notes), "note"))
        return ", ".join(parts)

    def _new(self, item: pytest.Item | None = None) -> list[KernelFinding]:
        """Return findings of the launches since the last look, without those that are allowed."""
        launches = self._recorder.launches
        fresh, self._seen = launches[self._seen :], len(launches)
        found = merged(finding for launch in fresh for finding in launch.findings)
        if not found:
            return []
        allowed = self._allowed | (_allowed_by_markers(item) if item is not None else frozenset())
        kept = [finding for finding in found if finding.kind not in allowed]
        self._allowed_count += len(found) - len(kept)
        return kept

    def _text(self, item: pytest.Item, findings: Sequence[KernelFinding], when: str = "") -> str:
        if not findings:
            return ""
        known = self._faulty.get(item.nodeid, 0)
        self._faulty[item.nodeid] = known + len(findings)
        found = merged(findings)
        if len(found) == 1 and not when:
            return _joined(found)
        kinds = ", ".join(dict.fromkeys(finding.kind for finding in found))
        return f"{_counted(len(found), 'finding')} {when}({kinds})\n\n{_joined(found)}"

    def _put_outside(self, where: str) -> None:
        found = self._new()
        if found:
            self._outside.append((where, found))


def _allowed_by_markers(item: pytest.Item) -> frozenset[str]:
    """Return the kinds that a test's markers allow.

    Raises:
        pytest.UsageError: a marker names no kind, or an unknown one.
    """
    kinds: set[str] = set()
    for marker in item.iter_markers(MARKER):
        if not marker.args or marker.kwargs.keys() - {"reason"}:
            raise pytest.UsageError(
                f"{item.nodeid}: {MARKER} takes kinds of findings and an optional reason"
            )
        try:
            kinds.update(check_kind(str(word)) for word in marker.args)
        except ConfigError as error:
            raise pytest.UsageError(f"{item.nodeid}: {MARKER}: {error}") from error
    return frozenset(kinds)


def _joined(findings: Iterable[KernelFinding]) -> str:
    return "\n\n".join(map(report, findings))


def _in_short(note: KernelFinding) -> str:
    at = line_of(note)
    line = f", {at.shown(shown_path)}" if at else ""
    text = note.message if note.kind in CODE_OF_COST else note.excerpt
    excerpt = f": {text}" if text else ""
    return log_line(f"note {note.kind} in kernel {note.kernel!r}{line}{excerpt}")


def _counted(number: int, noun: str, ending: str = "s") -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}{ending}"
