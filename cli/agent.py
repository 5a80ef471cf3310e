"""``monkeytree agent``: the daemon of a node, which moves workers."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import click

from .errors import Exit


@click.command()
@click.option("--node", required=True, metavar="ID", help="Id of this node, as in snapshots.")
@click.option(
    "--listen",
    default="127.0.0.1:8091",
    metavar="HOST:PORT",
    show_default=True,
    help="HTTP API; port 0 takes a free one.",
)
@click.option(
    "--data",
    required=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder of the journal, the sockets and the logs of standbys.",
)
@click.option("--advertise", default="", metavar="HOST", help="Host that other nodes reach this one at.")
@click.option(
    "--token-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Token that callers must know, mode 600. Without it: DATA/token, made at the first start.",
)
@click.option("--service", default="", metavar="URL", help="MonkeyTree service to announce to.")
@click.option(
    "--service-token-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Bearer token (role agent) for it.",
)
@click.option("--cluster", default="", metavar="ID", help="Its cluster; needed where several have this node.")
@click.option("--slots", type=click.IntRange(0), default=0, help="Slots of the node, told to the service.")
@click.option(
    "--arena-gb",
    type=click.FloatRange(0, 1e6),
    default=0.0,
    help="Memory for arriving and parked states. Default: half of the memory.",
)
@click.option(
    "--max-sources", type=click.IntRange(1), default=1, help="Pauses whose moves may leave at once."
)
@click.option("--max-destinations", type=click.IntRange(1), default=1, help="... and arrive at once.")
@click.option(
    "--chunk-timeout",
    type=click.FloatRange(0, 86_400, min_open=True),
    default=10.0,
    show_default=True,
    metavar="S",
    help="Longest that nothing may happen on the wire of a move.",
)
@click.option(
    "--public",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder that jobs may read, say /run/monkeytree: the table of source ports goes there too.",
)
@click.option("--device", default="", help="HCA of RDMA transports; default: the first.")
@click.option("--fault", multiple=True, hidden=True, help="Faults for tests.")
def agent(
    token_file: Path | None, service_token_file: Path | None, arena_gb: float, chunk_timeout: float,
    fault: tuple[str, ...], data: Path, **options: Any,
) -> int:  # fmt: skip
    """Serve this node: move workers to and from it when a controller asks.

    Prints its URL when it is ready; stops on Ctrl-C or SIGTERM. Workers and moves under way go on without
    it, and the next start in the same folder takes them up again.
    """
    if arena_gb != arena_gb:
        raise click.BadParameter("nan is no number of gigabytes", param_hint="--arena-gb")
    app: Any = importlib.import_module("monkeytree.agent.main")
    settings: Any = importlib.import_module("monkeytree.agent.options")
    service_token = "" if service_token_file is None else app.read_secret(service_token_file, data)
    made = settings.Options(
        data=data,
        secret=app.read_secret(token_file, data),
        service_token=service_token,
        arena_bytes=int(arena_gb * 1e9),
        chunk_timeout_s=chunk_timeout,
        faults=fault,
        **options,
    )
    app.run(made, on_ready=lambda url: click.echo(url))
    return Exit.OK
