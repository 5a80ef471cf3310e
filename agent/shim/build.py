"""Compiles the shim: ``libibverbs.so.1``, and ``libibverbs.so``, which NCCL asks for first, beside it."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from .assembly import MACHINES, name_table, trampolines, version_script
from .symbols import Symbol, read_symbols, shipped

SONAME = "libibverbs.so.1"
SOURCES = Path(__file__).parent
_PARTS = ("shim.c", "real.c", "table.c", "parse.c", "presence.c", "log.c", "absent.c")
_PLACES = (
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/local/lib",
    "/usr/lib",
)
_FLAGS = (
    "-std=gnu11",
    "-O2",
    "-g",
    "-fPIC",
    "-fvisibility=hidden",
    "-Wall",
    "-Wextra",
    "-pthread",
)


class BuildError(Exception):
    """The shim cannot be built here; the message says why."""


def installed_library() -> Path | None:
    """The machine's own libibverbs.so.1 in the usual places, or None."""
    candidates = (Path(place) / SONAME for place in _PLACES)
    return next((path for path in candidates if path.exists()), None)


def build(
    out: Path,
    real: Path | None = None,
    *,
    compiler: str = "gcc",
    machine: str | None = None,
    extra: Sequence[str] = (),
) -> Path:
    """Build into the directory ``out`` and return the path of the library.

    Args:
        real: the library to stand in for; its symbols are the shim's. None: the machine's own, or, where
            there is none, the list of rdma-core 44.0.
        machine: ``x86_64`` or ``aarch64``; None is this machine.
        extra: more flags for the compiler, such as ``-fsanitize=address``.

    Raises:
        BuildError: no compiler, another machine, or a library that is no libibverbs.
    """
    machine = machine or platform.machine()
    if machine not in MACHINES:
        raise BuildError(f"the shim has trampolines for {' and '.join(MACHINES)}, not for {machine}")
    if shutil.which(compiler) is None:
        raise BuildError(f"{compiler} is not installed: the shim is C (Debian, Ubuntu: apt-get install gcc)")
    library = real or installed_library()
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out) as scratch:
        made = _compile(
            Path(scratch), _symbols(library), str(library or ""), (compiler, *_FLAGS, *extra), machine
        )
        os.replace(made, out / SONAME)  # a running job keeps the one it has mapped
    link = out / "libibverbs.so"
    link.unlink(missing_ok=True)
    link.symlink_to(SONAME)
    return out / SONAME


def _symbols(library: Path | None) -> tuple[Symbol, ...]:
    if library is None:
        return shipped()
    try:
        return read_symbols(library)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise BuildError(f"cannot read the symbols of {library}: {error}") from error


def _compile(
    scratch: Path, symbols: Sequence[Symbol], built_for: str, command: Sequence[str], machine: str
) -> Path:
    generated = {
        "trampolines.S": trampolines(symbols, machine),
        "names.c": name_table(symbols, built_for),
        "symbols.map": version_script(symbols),
    }
    for name, text in generated.items():
        (scratch / name).write_text(text, "ascii")
    made = scratch / SONAME
    sources = [SOURCES / part for part in _PARTS] + [scratch / "trampolines.S", scratch / "names.c"]
    linking = [f"-Wl,-soname,{SONAME}", f"-Wl,--version-script={scratch / 'symbols.map'}"]
    linking += ["-Wl,-z,now", "-Wl,-z,relro", "-Wl,-z,nodelete", "-ldl"]
    answer = subprocess.run(
        [*command, "-shared", f"-I{SOURCES}", *map(str, sources), *linking, "-o", str(made)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    if answer.returncode != 0:
        raise BuildError(f"{command[0]} failed:\n{answer.stderr.strip()}")
    return made
