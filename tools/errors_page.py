"""Writes docs/errors.md from the code: ``python tools/errors_page.py > docs/errors.md``."""

from __future__ import annotations

import inspect

import monkeytree.adapters.errors
import monkeytree.errors
import monkeytree.slurm.errors
import monkeytree.validation.errors
from monkeytree.adapters.executions import EXECUTIONS
from monkeytree.adapters.solving import PLANS
from monkeytree.adapters.validating import VALIDATIONS
from monkeytree.checker import CODES
from monkeytree.cli.errors import Exit, exit_code
from monkeytree.errors import InvalidDocument, MonkeyTreeError
from monkeytree.service.problems import PROBLEMS

EXITS = {
    Exit.OK: "done; a plan that complies and is proved least; a plan that holds",
    Exit.INTERNAL: "internal failure: a bug, or a solver that crashed; never a traceback",
    Exit.BAD_INPUT: "usage or bad input; the message names the offending value and the cure",
    Exit.BEST_EFFORT: "`plan`: `best_effort` or `infeasible`",
    Exit.FEASIBLE: "`plan`: `feasible`, complies but is not proved least",
    Exit.FAULTS: "`check`, `demo`: the plan has faults, listed; `drill`: differences to the unmigrated run",
    Exit.NOT_ISOLATED: "`validate`: some cross-rack flow is not isolated",
    Exit.NOT_FINISHED: (
        "`validate --scenario`, `drill`, `slurm execute`: the run did not come to its end; `slurm state`: "
        "the worker's state was not moved, it goes on at its source"
    ),
    Exit.UNKNOWN: "`slurm state`: the agents could not be asked where the worker is",
}
FAILURES = {
    code: text
    for kind in (PLANS, VALIDATIONS, EXECUTIONS)
    for code, text in (
        (kind.crashed, f"the worker died while {kind.doing}, as often as MONKEYTREE_MAX_ATTEMPTS says"),
        (
            kind.overran,
            f"{kind.doing} was not over MONKEYTREE_SOLVE_GRACE_S after its own time limit: killed",
        ),
    )
} | {
    "agent_refused": "an agent refused to tell of its workers; the message has its words",
    "agent_unreachable": "an agent did not answer for MONKEYTREE_AGENT_PATIENCE_S",
    "move_failed": "a move failed: `steps` say which and why; the job went on where it was",
    "routes_not_put": "some nodes did not take their tables of source ports; the steps name them",
    "outcome_unknown": "agents could not be asked how a move ended; the job decided by itself",
    "oversubscribed": (
        "jobs that were to change places did not all move, twice; `oversubscribed` lists the nodes"
    ),
}
HEAD = """# Errors

Codes are stable: programs may switch on them. Messages are for people and may change; they show the offending
value and say what to do. This page is written by `tools/errors_page.py`; a test keeps it equal to the code.

## Problems of the HTTP API

Every error is `application/problem+json` (RFC 9457) with `type` (`/problems/CODE`, a page), `title`,
`status`, `detail` and `code`; `errors` lists offences by JSON pointer where there are any.

| code | status | title | what to do |
|---|---|---|---|
"""


def errors_page() -> str:
    """The whole page."""
    problems = [
        f"| `{code}` | {problem.status} | {problem.title} | {problem.advice} |"
        for code, problem in PROBLEMS.items()
    ]
    library = [
        f"| `{error.code}` | {_exit_code(error)} | {_first_line(error)} |" for error in library_errors()
    ]
    exits = [f"| {int(code)} | {text} |" for code, text in EXITS.items()]
    failures = [f"| `{code}` | {text} |" for code, text in FAILURES.items()]
    faults = [f"| `{code}` | {text} |" for code, text in CODES.items()]
    return (
        HEAD
        + _lines(problems)
        + "\n## Errors of the library and the command line\n\n| code | exit code | meaning |\n|---|---|---|\n"
        + _lines(library)
        + "\n## `failure.code` of a failed plan, validation or execution\n\n"
        + "Any code of the table above, or:\n\n"
        + "| code | meaning |\n|---|---|\n"
        + _lines(failures)
        + "\n## Exit codes\n\n| exit code | meaning |\n|---|---|\n"
        + _lines([*exits, "| 130, 143 | stopped by SIGINT, SIGTERM |"])
        + "\n## Faults that `monkeytree check` finds\n\n| code | meaning |\n|---|---|\n"
        + _lines(faults)
    )


def library_errors() -> list[type[MonkeyTreeError]]:
    """The tree below MonkeyTreeError, of the library and the adapters."""
    modules = (
        monkeytree.errors,
        monkeytree.adapters.errors,
        monkeytree.validation.errors,
        monkeytree.slurm.errors,
    )
    return [
        member
        for module in modules
        for member in vars(module).values()
        if inspect.isclass(member)
        and issubclass(member, MonkeyTreeError)
        and member.__module__ == module.__name__
    ]


def _exit_code(error: type[MonkeyTreeError]) -> int:
    """As :func:`exit_code`; ``validate`` is a process of its own, where only documents can be bad input."""
    if error.__module__ == "monkeytree.validation.errors":
        return 2 if issubclass(error, InvalidDocument) else 1
    return int(exit_code(error))


def _first_line(error: type[MonkeyTreeError]) -> str:
    return (error.__doc__ or "").strip().splitlines()[0].replace("``", "`")


def _lines(rows: list[str]) -> str:
    return "".join(f"{row}\n" for row in rows)


if __name__ == "__main__":
    print(errors_page(), end="")
