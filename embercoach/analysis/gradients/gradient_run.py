"""The state of a run that follows a gradient."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct, field

from embercoach.analysis.values.gradient_marks import LIVE, GradientMark, detached_at, marks_of
from embercoach.analysis.values.inheritance import is_layer
from embercoach.analysis.values.lattice import NO_PULLS, NONE, TREE, UNKNOWN, Symbol, Union, Value
from embercoach.analysis.work import Work

if TYPE_CHECKING:
    import libcst as cst

    from embercoach.analysis.calls.definitions import FunctionInfo
    from embercoach.analysis.facts.facts import Argument
    from embercoach.analysis.project.module import Module
    from embercoach.analysis.values.lattice import Pulls

#: Evaluations of expressions for one differentiated function and all that it calls.
_WORK = 20_000
#: The same for all of a file, more for its characters.
FILE_WORK = 60_000


class ImportedCall(NamedTuple):
    """A call of a function of another file, by the statement that makes it."""

    caller: FunctionInfo | None
    statement: cst.CSTNode
    function: FunctionInfo


class GradientRun(Struct, eq=False):
    """A differentiated function's run with marks on what the gradient is taken for.

    module: the file that is checked.
    of_parameters: the gradient is taken for the parameters of modules, whose results are marked.
    by_layer: the marks of results of layers name the call.
    results: of the calls so far, by function and arguments.
    is_complete: no call was of something unknown, whose result may depend on the arguments.
    imported: calls in the file of functions of others, with the pulls that detach their results.
    """

    module: Module
    of_parameters: bool
    by_layer: bool = False
    is_complete: bool = True
    work: Work = field(default_factory=lambda: Work(_WORK))
    imported: dict[ImportedCall, frozenset[cst.CSTNode]] = field(default_factory=dict)
    results: dict[tuple[FunctionInfo, tuple[Value, ...]], Value] = field(default_factory=dict)

    @property
    def spent(self) -> int:
        """Evaluations so far."""
        return _WORK - self.work.left

    def marks_of_layer(self, call: cst.Call, caller: FunctionInfo | None) -> Pulls:
        """The marks of what a layer returns, with its call if it is inside of another one."""
        if not self.of_parameters:
            return NO_PULLS
        is_inner = caller is not None and caller.cls is not None and is_layer(caller.cls)
        return LIVE | {GradientMark(layer=call)} if self.by_layer and is_inner else LIVE

    def note_imported(
        self, caller: FunctionInfo | None, statement: cst.CSTNode, info: FunctionInfo, result: Value
    ) -> None:
        """Note the result of a call that the checked file makes of another file's function."""
        pulls = detached_at(result)
        if pulls and info.module is not self.module:
            call = ImportedCall(caller, statement, info)
            self.imported[call] = self.imported.get(call, frozenset()) | pulls

    def note(
        self, callee: Value, receiver: Value | None, arguments: tuple[Argument, ...], result: Value
    ) -> None:
        """Note whether a call's result is known to depend on no more than its marks say."""
        if type(callee) is Symbol and callee.name.startswith("builtins."):
            return
        is_partly_unknown = type(result) is Union and UNKNOWN in result.options
        if result is UNKNOWN or result is TREE or is_partly_unknown:
            self.is_complete = False
        elif self.is_complete and result is not NONE and not marks_of(result):
            given = (UNKNOWN if receiver is None else receiver, *(a.value for a in arguments))
            self.is_complete = not any(map(marks_of, given))
