"""``monkeytree slurm``: read a Slurm cluster, follow it, advise on pending jobs; carry plans out."""

from __future__ import annotations

import json
import signal
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, TypeVar

import click

from .documents import end_with_reader
from .errors import CommandFailed, Exit
from .outputs import OutputFile, naming
from .secret_files import read_secret
from .slurm_execute import execute
from .slurm_state import state

if TYPE_CHECKING:
    from monkeytree.slurm.build import Build, Reading
    from monkeytree.slurm.site import Site

Command = TypeVar("Command", bound=Callable[..., Any])
FILE = click.Path(exists=True, dir_okay=False, readable=True, path_type=Path)
ANY_FILE = click.Path(exists=True, readable=True, path_type=Path)

site_option = click.option(
    "--site", "site_file", type=FILE, metavar="FILE", help="What Slurm cannot tell (docs/slurm.md)."
)


def source_options(command: Command) -> Command:
    """The options that say where answers of Slurm come from."""
    for option in reversed(
        (
            site_option,
            click.option(
                "--topology", type=ANY_FILE, metavar="FILE", help="Racks; a folder holds LLDP answers."
            ),
            click.option("--rest", metavar="URL", help="Ask slurmrestd there instead of Slurm's commands."),
            click.option("--jwt-file", type=FILE, metavar="FILE", help="The token for --rest."),
            click.option("--rest-user", default="root", show_default=True, help="Whose token that is."),
        )
    ):
        command = option(command)
    return command


@click.group()
def slurm() -> None:
    """Read a Slurm cluster, follow it, advise on pending jobs; only ``execute`` changes anything in Slurm."""
    try:
        import ClusterShell  # noqa: F401
    except ImportError:
        raise CommandFailed(
            "this needs ClusterShell; install it with: pip install 'monkeytree[slurm]'"
        ) from None


slurm.add_command(execute)
slurm.add_command(state)


@slurm.command()
@source_options
@click.option(
    "--squeue", type=FILE, metavar="FILE", help="Output of squeue --json, instead of a live cluster."
)
@click.option("--sinfo", type=FILE, metavar="FILE", help="Output of sinfo --json, likewise.")
@click.option("--steps", type=FILE, metavar="FILE", help="Output of squeue --steps -h -o '%i|%N', likewise.")
@click.option(
    "--pending/--no-pending", default=None, help="List pending jobs too (default: as the site file says)."
)
@click.option("-o", "--output", type=OutputFile(), default="-", metavar="FILE")
def snapshot(
    site_file: Path | None,
    topology: Path | None,
    rest: str | None,
    jwt_file: Path | None,
    rest_user: str,
    squeue: Path | None,
    sinfo: Path | None,
    steps: Path | None,
    pending: bool | None,
    output: str,
) -> int:
    """Write one placement snapshot as JSON, from a live cluster or from files of its answers."""
    from monkeytree.identity import dump_snapshot

    site = _site(site_file, topology, pending)
    reading = _read(site, rest, jwt_file, rest_user, squeue, sinfo, steps)
    build = _build(reading, site)
    end_with_reader()
    with naming(output), click.open_file(output, "w", encoding="utf-8") as stream:
        json.dump(dump_snapshot(build.snapshot), stream, indent=2, allow_nan=False)
        stream.write("\n")
    return Exit.OK


@slurm.command()
@source_options
@click.option("--server", required=True, metavar="URL", help="The MonkeyTree service.")
@click.option(
    "--token-file", required=True, type=FILE, metavar="FILE", help="Its bearer token, role scheduler."
)
@click.option(
    "--state",
    type=OutputFile(allow_dash=False, path_type=Path),
    metavar="FILE",
    help="Where the sequence is kept (default: ./monkeytree-slurm-watch.json).",
)
@click.option(
    "--notice",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Look at once when a hook touches this file.",
)
@click.option("--once", is_flag=True, help="One look, then end: 0 sent or nothing new, 1 failed.")
def watch(
    site_file: Path | None,
    topology: Path | None,
    rest: str | None,
    jwt_file: Path | None,
    rest_user: str,
    server: str,
    token_file: Path,
    state: Path | None,
    notice: Path | None,
    once: bool,
) -> int:
    """Follow the cluster and send a snapshot to the service whenever the placement changed."""
    from monkeytree.slurm.posting import Service
    from monkeytree.slurm.watch import Notice, Watcher

    site = _site(site_file, topology, None)
    watcher = Watcher(
        source=_source(site, rest, jwt_file, rest_user),
        service=Service(server, read_secret(token_file)),
        site=site,
        memory_file=state or Path("monkeytree-slurm-watch.json"),
        say=_tell,
        notice=Notice(notice),
    )
    if once:
        return Exit.OK if watcher.look() in ("sent", "same") else Exit.INTERNAL
    pace = site.watch
    _tell(
        f"watching: a look every {pace.interval_s:g} s, {60 / pace.floor_s:g} a minute at most; Ctrl-C stops"
    )
    stop = threading.Event()

    def end(_number: int, _frame: FrameType | None) -> None:
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, end)
    watcher.run(stop.wait)
    return Exit.OK


@slurm.command()
@source_options
@click.option(
    "--squeue", type=FILE, metavar="FILE", help="Output of squeue --json, instead of a live cluster."
)
@click.option("--sinfo", type=FILE, metavar="FILE", help="Output of sinfo --json, likewise.")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
def advise(
    site_file: Path | None,
    topology: Path | None,
    rest: str | None,
    jwt_file: Path | None,
    rest_user: str,
    squeue: Path | None,
    sinfo: Path | None,
    form: str,
) -> int:
    """Say on which nodes pending jobs would keep every rack within its bound, as scontrol lines.

    The lines are printed, never run. Jobs are taken by priority, each after the ones before it.
    """
    from monkeytree.slurm.advise import as_text, proposals

    site = _site(site_file, topology, True)
    build = _build(_read(site, rest, jwt_file, rest_user, squeue, sinfo, None), site)
    found = proposals(build.snapshot)
    end_with_reader()
    if form == "json":
        skipped = [{"job": job, "why": why} for job, why in build.not_pending.items()]
        print(json.dumps({"proposals": [one.document() for one in found], "skipped": skipped}, indent=2))
        return Exit.OK
    for job, why in build.not_pending.items():
        _tell(f"pending job {job} passed over: it {why}")
    print(as_text(found) or "no pending job could start now")
    return Exit.OK


def _read(
    site: Site,
    rest: str | None,
    jwt_file: Path | None,
    rest_user: str,
    squeue: Path | None,
    sinfo: Path | None,
    steps: Path | None,
) -> Reading:
    """A reading of a live cluster, or of files where they are named."""
    if (squeue is None) != (sinfo is None):
        raise click.UsageError("--squeue and --sinfo go together")
    if squeue is None or sinfo is None:
        live: Reading = _source(site, rest, jwt_file, rest_user).read()
        return live
    from monkeytree.slurm.sources import read_files

    if rest is not None:
        raise click.UsageError("--rest asks a live cluster; leave it out with --squeue and --sinfo")
    told: Reading = read_files(site, squeue, sinfo, None, steps)
    return told


def _site(site_file: Path | None, topology: Path | None, pending: bool | None) -> Site:
    """The site of the file, with what the options override."""
    from monkeytree.slurm.site import Site
    from monkeytree.slurm.site_reading import read_site_file

    site: Site = read_site_file(site_file) if site_file else Site()
    if topology is not None:
        site = replace(site, topology=replace(site.topology, file=str(topology)))
    return site if pending is None else replace(site, pending=pending)


def _source(site: Site, rest: str | None, jwt_file: Path | None, rest_user: str) -> Any:
    from monkeytree.slurm.rest import RestClient
    from monkeytree.slurm.sources import LiveSource, RestSource, client_for

    if rest is None:
        return LiveSource(site, client_for(site))
    if jwt_file is None:
        raise click.UsageError("--rest needs --jwt-file; get a token with: scontrol token lifespan=SECONDS")
    token = read_secret(jwt_file).removeprefix("SLURM_JWT=")
    return RestSource(site, RestClient(rest, token, user=rest_user, timeout_s=site.slurm.timeout_s))


def _build(reading: Reading, site: Site) -> Build:
    from monkeytree.slurm.build import build_snapshot

    build: Build = build_snapshot(reading, site)
    for line in build.warnings:
        _tell(line)
    for job, why in build.left_out.items():
        _tell(f"job {job} left out: it {why}")
    return build


def _tell(line: str) -> None:
    shown = "".join(sign if sign.isprintable() else "?" for sign in line)  # names are users' own
    print(f"monkeytree slurm: {shown}", file=sys.stderr, flush=True)
