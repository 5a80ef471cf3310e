"""A fake libibverbs and a program that uses it as NCCL does, run with and without the shim."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from monkeytree.agent.shim.assembly import MACHINES, version_script
from monkeytree.agent.shim.build import SOURCES, build
from monkeytree.agent.shim.symbols import Symbol, shipped

HERE = Path(__file__).parent
# What fake_verbs.c implements; every other function answers with its index.
FAKES = {
    ("ibv_modify_qp", "IBVERBS_1.0"): "fake_modify_qp_1_0",
    ("ibv_rate_to_mbps", "IBVERBS_1.1"): "fake_many",
} | {
    (f"ibv_{name}", "IBVERBS_1.1"): f"fake_{name}"
    for name in (
        "get_device_list", "free_device_list", "open_device", "close_device", "query_gid", "reg_mr",
        "dereg_mr", "create_qp", "modify_qp", "query_qp", "destroy_qp",
    )
}  # fmt: skip
_ANSWER = {"x86_64": "    mov ${0}, %eax\n    ret\n", "aarch64": "    mov w0, #{0}\n    ret\n"}
_JUMP = {"x86_64": "    jmp {0}\n", "aarch64": "    b {0}\n"}


def compile_c(out: Path, sources: Sequence[Path], *flags: str, compiler: str = "gcc") -> Path:
    """Compile ``sources`` into ``out``."""
    command = [compiler, "-std=gnu11", "-g", "-O1", "-pthread", f"-I{SOURCES}", *map(str, sources)]
    subprocess.run([*command, *flags, "-o", str(out), "-ldl"], check=True, timeout=120)
    return out


def build_fake(directory: Path, symbols: Sequence[Symbol] | None = None) -> Path:
    """A fake libibverbs.so.1 that exports ``symbols`` (default: those of rdma-core 44.0)."""
    symbols = shipped() if symbols is None else symbols
    directory.mkdir(exist_ok=True)
    (directory / "stubs.S").write_text("".join(_stub(i, one) for i, one in enumerate(symbols)), "ascii")
    script = version_script(symbols).replace("monkeytree_verbs_shim;", "fake_verbs;")
    (directory / "fake.map").write_text(script, "ascii")
    return compile_c(
        directory / "libibverbs.so.1",
        [HERE / "fake_verbs.c", directory / "stubs.S"],
        "-shared", "-fPIC", "-Wl,-soname,libibverbs.so.1", f"-Wl,--version-script={directory / 'fake.map'}",
    )  # fmt: skip


def _stub(index: int, symbol: Symbol) -> str:
    machine = platform.machine()
    fake = FAKES.get((symbol.name, symbol.version))
    body = _JUMP[machine].format(fake) if fake else _ANSWER[machine].format(index)
    kind, section = ("function", ".text") if symbol.size is None else ("object", ".data")
    if symbol.size is not None:
        body = f"    .fill {symbol.size}, 1, 7\n"
    return (
        f"    {section}\n    .globl stub_{index}\n    .type stub_{index}, %{kind}\nstub_{index}:\n{body}"
        f"    .size stub_{index}, . - stub_{index}\n"
        f"    .symver stub_{index}, {symbol.name}{'@@' if symbol.default else '@'}{symbol.version}\n"
    )


@dataclass(frozen=True, slots=True)
class Run:
    """What a run of the program did: its output, the calls that the fake saw, and the shim's log."""

    returncode: int
    output: str
    errors: str
    calls: tuple[tuple[int, str, bytes], ...]
    log: tuple[dict[str, Any], ...]

    def by_pair(self) -> dict[int, list[tuple[str, bytes]]]:
        """The calls of each queue pair, in order."""
        found = defaultdict(list)
        for key, name, arguments in self.calls:
            if key:
                found[key].append((name, arguments))
        return found

    def shared(self, without: str = "") -> Counter[tuple[str, bytes]]:
        """The calls that belong to no queue pair, in any order, but for those named ``without``."""
        return Counter(
            (name, arguments) for key, name, arguments in self.calls if not key and name != without
        )


@dataclass(frozen=True, slots=True)
class Bench:
    """A fake library, a shim built for it and the program, in one directory."""

    root: Path
    program: Path
    shim: Path
    fake: Path

    def run(
        self,
        *arguments: str,
        table: str | None = None,
        shim: bool = True,
        env: Mapping[str, str] | None = None,
        drop: Sequence[str] = (),
    ) -> Run:
        """Run the program over the shim, or (``shim=False``) straight over the fake library."""
        record, log, lines = self.root / "calls", self.root / "log", self.root / "table"
        for path in (record, log, lines):
            path.unlink(missing_ok=True)
        if table is not None:
            lines.write_text(table, "ascii")
        settings = {
            "PATH": os.environ["PATH"],
            "LD_LIBRARY_PATH": str((self.shim if shim else self.fake).parent),
            "FAKE_VERBS_RECORD": str(record),
            "MONKEYTREE_VERBS_REAL": str(self.fake),
            "MONKEYTREE_VERBS_TABLE": str(lines),
            "MONKEYTREE_VERBS_LOG": str(log),
        } | dict(env or {})
        settings = {name: value for name, value in settings.items() if name not in drop}
        answer = subprocess.run(
            [str(self.program), *arguments],
            env=settings,
            capture_output=True,
            text=True,
            timeout=120,
        )
        return Run(answer.returncode, answer.stdout, answer.stderr, _calls(record), _log(log))


def bench_in(root: Path) -> Bench:
    """All of it, built in ``root``; skips without gcc (in CI that fails) or without trampolines."""
    if shutil.which("gcc") is None and os.environ.get("CI") != "true":
        pytest.skip("the shim is C: needs gcc")
    if platform.machine() not in MACHINES:
        pytest.skip(f"the shim has no trampolines for {platform.machine()}")
    fake = build_fake(root / "fake")
    (root / "fake" / "libibverbs.so").symlink_to("libibverbs.so.1")
    shim = build(root / "shim", fake, extra=["-Werror"])
    program = compile_c(root / "program", [HERE / "program.c"])
    return Bench(root, program, shim, Path(fake))


def _calls(record: Path) -> tuple[tuple[int, str, bytes], ...]:
    rows = record.read_text("ascii").splitlines() if record.exists() else []
    split = (row.split(" ") for row in rows)
    return tuple((int(key), name, bytes.fromhex(arguments)) for key, name, arguments in split)


def _log(log: Path) -> tuple[dict[str, Any], ...]:
    return tuple(json.loads(row) for row in log.read_text("ascii").splitlines()) if log.exists() else ()
