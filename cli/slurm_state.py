"""``monkeytree slurm state``: what ``slurm execute`` runs to have agents move a worker's state."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any, TypeVar

import click
import orjson

from .errors import Exit
from .secret_files import read_secret

Command = TypeVar("Command", bound=Callable[..., Any])
FILE = click.Path(exists=True, dir_okay=False, readable=True, path_type=Path)


def _named(_context: click.Context, parameter: click.Parameter, value: Any) -> Any:
    if value == "":
        raise click.BadParameter("must not be empty", param=parameter)
    return value


def told_by_execute(command: Command) -> Command:
    """The options that ``slurm execute`` gives as environment variables."""
    for name, help_text in reversed(
        (
            ("plan", "Id of the plan."),
            ("cluster", "Id of the cluster."),
            ("move", "Index of the move in the plan."),
            ("job", "Id of the job, as its workers registered with agents."),
            ("group", "Id of the replica group."),
            ("rank", "Rank in the group."),
            ("source", "Node that the worker is on."),
            ("target", "Node that it is to move to."),
            ("nodes", "All nodes of the job before the move, a hostlist."),
            ("orders", 'Ring orders after the move, {"GROUP": [RANK, ...]}.'),
        )
    ):
        default: dict[str, Any] = {"orders": {"default": "{}"}, "cluster": {}}.get(name, {"required": True})
        option = click.option(
            f"--{name}", envvar=f"MT_{name.upper()}", show_envvar=True, help=help_text, callback=_named,
            type=click.IntRange(0) if name in ("move", "rank") else str, **default,
        )  # fmt: skip
        command = option(command)
    return command


@click.command()
@told_by_execute
@click.option(
    "--agents",
    metavar="WHERE",
    help="http://{node}:8091, a file of lines NODE URL, or a path with {node} of files that hold a URL.",
)
@click.option("--server", metavar="URL", help="Ask this MonkeyTree service where agents are, instead.")
@click.option("--server-token-file", type=FILE, metavar="FILE", help="Bearer token for it, any role.")
@click.option(
    "--token-file", required=True, type=FILE, metavar="FILE", help="The agents' token, the same at each."
)
@click.option(
    "--transport", type=click.Choice(["stream", "verbs", "nixl"]), default="stream", show_default=True,
    help="What carries the state.",
)  # fmt: skip
@click.option(
    "--pause", "pause_s", type=click.FloatRange(1, 3600), default=60.0, show_default=True, metavar="S",
    help="Longest pause of the job; past it the job goes on as it was.",
)  # fmt: skip
@click.option(
    "--patience", "patience_s", type=click.FloatRange(1, 3600), default=30.0, show_default=True, metavar="S",
    help="How long agents that do not answer, and workers that are not there yet, are waited for.",
)  # fmt: skip
def state(
    plan: str, cluster: str | None, move: int, job: str, group: str, rank: int, source: str, target: str,
    nodes: str, orders: str, agents: str | None, server: str | None, server_token_file: Path | None,
    token_file: Path, transport: str, pause_s: float, patience_s: float,
) -> int:  # fmt: skip
    """Have the agents of a job's nodes move one worker's state; for --state-command of slurm execute.

    Say it again after a crash: it goes on where the agents are. Exit code: 0 the state has moved (now or
    before), 7 it has not and the job goes on at its source, 75 the agents could not be asked.
    """
    from monkeytree.adapters.logs import configure_logs
    from monkeytree.slurm.execution.names import donor_name, tag_of

    from .agent_book import Book
    from .state_move import StateMove, Unsure
    from .state_seen import Errand, NotMoved

    errand = Errand(
        donor_name(tag_of(plan), move), plan, job, group, rank, source, target,
        _hosts(nodes, source, target, pause_s + patience_s), _orders(orders), transport, pause_s, patience_s,
    )  # fmt: skip
    book = Book(_finder(agents, server, server_token_file, cluster), read_secret(token_file))
    configure_logs("critical")  # what matters is said in words
    try:
        _say(sys.stdout, StateMove(errand, book, _tell).run())
        return Exit.OK
    except NotMoved as error:
        _say(sys.stderr, f"Error: ({error.code}) {error}")
        return Exit.NOT_FINISHED
    except Unsure as error:
        _say(sys.stderr, f"Error: ({error.code}) {error}")
    except Exception as error:  # noqa: BLE001  # the code tells Slurm's executor what it may undo
        _say(sys.stderr, f"Error: (state_unknown) this is a bug: {type(error).__name__}: {error}")
    finally:
        book.close()
    return Exit.UNKNOWN


def _finder(agents: str | None, server: str | None, token_file: Path | None, cluster: str | None) -> Any:
    from .agent_book import finder, of_service

    if (agents is None) == (server is None):
        raise click.UsageError("say where agents are: either --agents or --server")
    if agents is not None:
        _check_pattern(agents)
        return finder(agents)
    if token_file is None or server is None:
        raise click.UsageError("--server needs --server-token-file")
    return of_service(server, read_secret(token_file), cluster or "")


def _check_pattern(agents: str) -> None:
    """A pattern that makes no URLs would be found out only after all the time that agents are waited for."""
    from monkeytree.adapters.agents_url import check_agent_url

    if "://" in agents and "{node}" in agents:
        try:
            check_agent_url(agents.replace("{node}", "node"), ())
        except ValueError as error:
            raise click.UsageError(f"--agents {agents}: it {error}") from None


def _hosts(hostlist: str, source: str, target: str, waits_s: float) -> tuple[str, ...]:
    """The nodes of the job; what no agent could do is refused before any is waited for."""
    from monkeytree.slurm.hostlist import BadHostlist, expand

    if math.isnan(waits_s):  # it lies within any range
        raise click.UsageError("--pause and --patience must be numbers of seconds")
    if source == target:
        raise click.UsageError(f"--source and --target are both {source}")
    try:
        hosts: tuple[str, ...] = expand(hostlist)
    except BadHostlist as error:
        raise click.UsageError(f"--nodes {hostlist!r}: {error}") from None
    if source not in hosts:
        raise click.UsageError(f"--source {source} is none of --nodes {hostlist}")
    return hosts


def _orders(text: str) -> Mapping[str, tuple[int, ...]]:
    try:
        orders = {str(group): tuple(map(int, order)) for group, order in orjson.loads(text).items()}
        if any(sorted(order) != list(range(len(order))) for order in orders.values()):
            raise ValueError
        return orders
    except (ValueError, TypeError, AttributeError):
        raise click.UsageError(f'--orders must be like {{"0": [0, 1, 2]}}, got {text[:80]!r}') from None


def _tell(stage: str) -> None:
    _say(sys.stderr, f"monkeytree slurm state: {stage}")


def _say(stream: IO[str], words: str) -> None:
    """Words may be lost to a full disk or a reader that left: the exit code must not be, nor the move."""
    try:
        print(words, file=stream, flush=True)
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())  # for what is still buffered
