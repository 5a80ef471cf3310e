"""``monkeytree token``: bearer tokens of the API, straight in the store."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import click

from monkeytree.adapters.settings import Settings
from monkeytree.adapters.store import Store
from monkeytree.adapters.tokens import ROLES

from .documents import end_with_reader
from .stores import open_store
from .supervisor.datadir import default_data_dir

data_option = click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Data of the service (default: $MONKEYTREE_DATA or ./monkeytree-data); DATABASE_URL overrides.",
)


@click.group()
def token() -> None:
    """Add, list and revoke the bearer tokens of the API."""


@token.command()
@click.argument("name")
@click.option(
    "--role", "roles", multiple=True, required=True, type=click.Choice(ROLES), help="Give it once a role."
)
@click.option(
    "--cluster", "clusters", multiple=True, metavar="NAME", help="Bind it to clusters (default: all)."
)
@data_option
def add(name: str, roles: tuple[str, ...], clusters: tuple[str, ...], data: Path | None) -> None:
    """Make a token called NAME and print it; it cannot be shown again."""
    text = _store(data).add_token(name, roles, clusters)
    end_with_reader()
    click.echo(text)


@token.command("list")
@data_option
def list_tokens(data: Path | None) -> None:
    """Print each token: start of its text, name, roles, clusters, day made."""
    tokens = _store(data).list_tokens()
    end_with_reader()
    for known in tokens:
        day = datetime.fromtimestamp(known.created_at, UTC).date().isoformat()
        clusters = ",".join(sorted(known.clusters)) or "all clusters"
        click.echo(f"{known.prefix}…  {known.name}  {','.join(sorted(known.roles))}  {clusters}  {day}")


@token.command()
@click.argument("token_or_name", metavar="NAME")
@data_option
def revoke(token_or_name: str, data: Path | None) -> None:
    """Revoke the token called NAME; its text, or the start that `list` shows, will do too."""
    revoked = _store(data).revoke_token(token_or_name)
    end_with_reader()
    click.echo(f"revoked {revoked.name}")


def _store(data: Path | None) -> Store:
    folder = (data or default_data_dir()).absolute()
    # No token needs the broker, but settings do not come without its URL.
    environ = {"REDIS_URL": "redis://localhost", **os.environ, "MONKEYTREE_DATA": str(folder)}
    return open_store(Settings.from_env(environ))
