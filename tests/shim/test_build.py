"""Building the shim: every symbol of the library it stands in for, under every version, and no other."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from monkeytree.agent.shim.__main__ import main
from monkeytree.agent.shim.assembly import name_table, trampolines, version_script
from monkeytree.agent.shim.build import SOURCES, BuildError, build, installed_library
from monkeytree.agent.shim.symbols import read_symbols, shipped

from .harness import FAKES, Bench, build_fake, compile_c


def exported(library: Path) -> set[str]:
    """Functions and variables with their versions, as binutils names them."""
    command = ["readelf", "--dyn-syms", "--wide", str(library)]
    rows = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    return set(re.findall(r"(?:FUNC|OBJECT) +GLOBAL +DEFAULT +\d+ (\w+@@?[\w.]+)", rows))


def test_every_exported_symbol_version_leads_to_the_one_of_that_name(bench: Bench, tmp_path: Path) -> None:
    asked = [one for one in shipped() if (one.name, one.version) not in FAKES and one.size is None]
    (tmp_path / "list").write_text("".join(f"{one.name} {one.version}\n" for one in asked), "ascii")
    run = bench.run("symbols", str(tmp_path / "list"))
    index = {(one.name, one.version): number for number, one in enumerate(shipped())}
    assert run.output == "".join(
        f"{one.name} {one.version} {index[one.name, one.version]}\n" for one in asked
    )
    assert len(asked) > 160


def test_the_shim_exports_what_the_real_library_does_and_its_own_mark(bench: Bench) -> None:
    wanted = {f"{one.name}{'@@' if one.default else '@'}{one.version}" for one in shipped()}
    assert exported(bench.shim) == wanted | {"monkeytree_verbs_shim@@MONKEYTREE_1"}
    assert set(read_symbols(bench.fake)) == set(shipped())


def test_an_older_real_library_is_named_and_what_it_lacks_fails_softly(bench: Bench, tmp_path: Path) -> None:
    older = build_fake(
        tmp_path / "older", [one for one in shipped() if one.version in ("IBVERBS_1.0", "IBVERBS_1.1")]
    )
    (tmp_path / "list").write_text("ibv_query_ece IBVERBS_1.10\nibv_reg_dmabuf_mr IBVERBS_1.12\n", "ascii")
    run = bench.run("symbols", str(tmp_path / "list"), env={"MONKEYTREE_VERBS_REAL": str(older)})
    assert re.search(r"lacks \d+ symbols", run.errors)
    assert run.output == "ibv_query_ece IBVERBS_1.10 38\nibv_reg_dmabuf_mr IBVERBS_1.12 0\n"


def test_the_layouts_are_those_of_the_headers(tmp_path: Path) -> None:
    asked = ["gcc", "-E", "-include", "infiniband/verbs.h", "-x", "c", "/dev/null"]
    if subprocess.run(asked, capture_output=True, timeout=60).returncode != 0:
        pytest.skip("rdma-core's headers are not installed (libibverbs-dev)")
    compile_c(tmp_path / "abi_check.o", [SOURCES / "abi_check.c"], "-c")


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_what_is_generated_has_a_trampoline_a_version_and_a_row_for_every_symbol(machine: str) -> None:
    symbols = shipped()
    source = trampolines(symbols, machine)
    assert source.count(".symver") == name_table(symbols, "").count("IBVERBS_") == len(symbols)
    assert all(f" {one.name};" in version_script(symbols) for one in symbols)


def test_a_library_that_is_none_is_refused_by_name(tmp_path: Path) -> None:
    other = compile_c(tmp_path / "other.so", [SOURCES / "absent.c"], "-shared", "-fPIC")
    with pytest.raises(BuildError, match=re.escape(f"cannot read the symbols of {other}")):
        build(tmp_path / "out", other)
    with pytest.raises(BuildError, match="not for riscv64"):
        build(tmp_path / "out", other, machine="riscv64")


def test_a_shim_is_not_built_for_a_shim(bench: Bench, tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="is such a shim itself"):
        build(tmp_path / "out", bench.shim)


def test_the_command_builds_and_names_what_it_stands_in_for(
    bench: Bench, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--out", str(tmp_path / "made"), "--real", str(bench.fake)]) == 0
    made = tmp_path / "made" / "libibverbs.so.1"
    assert capsys.readouterr().out == f"{made}: stands in for {bench.fake}\n"
    assert (tmp_path / "made" / "libibverbs.so").resolve() == made
    assert sorted(path.name for path in made.parent.iterdir()) == ["libibverbs.so", "libibverbs.so.1"]
    assert main(["--out", str(tmp_path / "made"), "--cc", "no-such-compiler"]) == 1
    assert "no-such-compiler is not installed" in capsys.readouterr().err


def test_this_machines_own_library_stands_behind_its_shim_with_every_symbol(
    bench: Bench, tmp_path: Path
) -> None:
    real = installed_library()
    if real is None:
        pytest.skip("rdma-core is not installed (libibverbs1)")
    own = Bench(tmp_path, bench.program, build(tmp_path / "shim", real), real)
    assert exported(own.shim) == exported(real) | {"monkeytree_verbs_shim@@MONKEYTREE_1"}
    code = "import ctypes, sys; lib = ctypes.CDLL(sys.argv[1]); f = lib.ibv_wc_status_str\n"
    code += "f.restype = ctypes.c_char_p; print(f(5).decode())"
    command = [sys.executable, "-c", code, str(own.shim)]
    answer = subprocess.run(command, env={}, capture_output=True, text=True, timeout=60, check=True)
    assert (answer.stdout, answer.stderr) == ("Work Request Flushed Error\n", "")
