"""The shim over a fake libibverbs: everything passes through byte for byte, but for the flow label at RTR."""

from __future__ import annotations

import struct
import subprocess
import sys
from pathlib import Path

import pytest

from monkeytree.agent.presence import Presence
from monkeytree.agent.shim.build import SOURCES, build
from monkeytree.agent.shim.symbols import shipped
from monkeytree.ecmp.label import label_of_port, port_of_label

from .harness import Bench, Run, compile_c

RTR = 2
LABEL_AT = 4 + 56 + 16  # the mask, then ah_attr.grh.flow_label of struct ibv_qp_attr
# Threads on device 0 send from 10.0.0.1, on device 1 from 10.0.1.1; queue pairs alternate between two peers.
TABLE = """# as the agent writes it
10.0.0.1,10.1.0.1=49152,50000
10.0.0.1,10.1.1.1=65535
10.0.1.1,10.1.0.1=61000,61001,61002
"""
PORTS = {
    ("10.0.0.1", "10.1.0.1"): (49152, 50000),
    ("10.0.0.1", "10.1.1.1"): (65535,),
    ("10.0.1.1", "10.1.0.1"): (61000, 61001, 61002),
}


def labels(run: Run) -> dict[int, int]:
    """The flow label that each queue pair was taken to RTR with; the last one where there were several."""
    return {
        key: struct.unpack_from("=I", arguments, LABEL_AT)[0]
        for key, name, arguments in run.calls
        if name == "ibv_modify_qp" and struct.unpack_from("=I", arguments, 4)[0] == RTR
    }


def without_labels(run: Run) -> dict[int, list[tuple[str, bytes]]]:
    """The calls of each queue pair with the label at RTR blanked."""
    return {
        key: [
            (
                name,
                _blank(arguments)
                if name == "ibv_modify_qp" and arguments[4:8] == b"\x02\0\0\0"
                else arguments,
            )
            for name, arguments in calls
        ]
        for key, calls in run.by_pair().items()
    }


def _blank(arguments: bytes) -> bytes:
    return arguments[:LABEL_AT] + b"----" + arguments[LABEL_AT + 4 :]


def same_calls(shimmed: Run, plain: Run) -> bool:
    """Whether the fake saw exactly the same in both runs."""
    return shimmed.by_pair() == plain.by_pair() and shimmed.shared() == plain.shared()


def test_a_whole_life_of_queue_pairs_passes_byte_for_byte_but_for_the_label_on_eight_threads(
    bench: Bench,
) -> None:
    arguments = ("connect", "8", "12", "1", "plain")
    plain, shimmed = bench.run(*arguments, shim=False), bench.run(*arguments, table=TABLE)
    assert plain.output == shimmed.output == "0 failures\n"
    assert (plain.returncode, plain.errors, shimmed.returncode, shimmed.errors) == (0, "", 0, "")
    assert without_labels(shimmed) == without_labels(plain)
    assert len(shimmed.by_pair()) == 96
    # Beside the label, the only thing the fake may see more is the question for the local address.
    assert shimmed.shared("ibv_query_gid") == plain.shared("ibv_query_gid")
    assert set(labels(plain).values()) == {0}


def test_each_pair_of_addresses_takes_its_ports_in_turn_and_others_none(bench: Bench) -> None:
    run = bench.run("connect", "8", "12", "1", "plain", table=TABLE)
    taken: dict[tuple[str, str], list[int]] = {pair: [] for pair in [*PORTS, ("10.0.1.1", "10.1.1.1")]}
    for key, label in labels(run).items():
        thread, nth = divmod(key - 1000, 100)
        pair = (f"10.0.{thread % 2}.1", f"10.1.{nth % 2}.1")
        taken[pair].append(port_of_label(label) if label else 0)
    for pair, ports in taken.items():
        wanted = PORTS.get(pair, (0,))
        assert sorted(ports) == sorted(wanted[i % len(wanted)] for i in range(24)), pair


def test_the_log_says_what_was_set_one_line_a_queue_pair(bench: Bench) -> None:
    run = bench.run("connect", "8", "12", "1", "plain", table=TABLE)
    set_labels = {key: label for key, label in labels(run).items() if label}
    assert {row["qp_num"]: row["flow_label"] for row in run.log} == set_labels
    assert len(run.log) == 72
    for row in run.log:
        ports = PORTS[row["source"], row["target"]]
        assert row["udp_source_port"] == ports[row["nth"] % len(ports)]
        assert row["flow_label"] == label_of_port(row["udp_source_port"])
        assert (row["what"], row["result"], row["dest_qp_num"]) == ("set", 0, row["qp_num"] + 4000)


@pytest.mark.parametrize(
    "table",
    [
        None,
        "",
        "# nothing\n\n",
        "10.0.0.1,10.1.0.1=50000\n10.0.0.1,10.1.1.1\n",
        "10.0.0.1,10.1.0.1=50000\n10.0.0.1,10.1.1.1=80\n",
        "10.0.0.1,10.1.0.1=50000,\n",
        "10.0.0.256,10.1.0.1=50000\n",
        "10.0.0.1,10.1.0.1=50000 \n",
        "\0\xff{}",
    ],
)
def test_without_a_table_that_is_understood_whole_nothing_is_touched(bench: Bench, table: str | None) -> None:
    arguments = ("connect", "2", "4", "1", "plain")
    text = (
        None if table is None else table.encode("latin-1").decode("ascii", "replace").replace("\ufffd", "?")
    )
    run = bench.run(*arguments, table=text)
    assert run.output == "0 failures\n"
    assert same_calls(run, bench.run(*arguments, shim=False))
    assert not run.log


@pytest.mark.parametrize("mode", ["infiniband", "gid0", "unknown", "own"])
def test_queue_pairs_that_are_not_its_business_pass_untouched(bench: Bench, mode: str) -> None:
    arguments = ("connect", "2", "4", "1", mode)
    run, plain = bench.run(*arguments, table=TABLE), bench.run(*arguments, shim=False)
    assert run.by_pair() == plain.by_pair()
    assert {row["what"] for row in run.log} <= {"own_label"}


def test_a_label_that_a_program_gives_is_replaced_only_where_asked(bench: Bench) -> None:
    arguments = ("connect", "1", "2", "1", "own")
    assert set(labels(bench.run(*arguments, table=TABLE)).values()) == {0x12345}
    run = bench.run(*arguments, table=TABLE, env={"MONKEYTREE_VERBS_SHIM": "override"})
    assert set(labels(run).values()) == {label_of_port(49152), label_of_port(65535)}


@pytest.mark.parametrize("word", ["off", "OFF", "0", "false"])
def test_it_is_off_by_its_variable(bench: Bench, word: str) -> None:
    arguments = ("connect", "2", "4", "1", "plain")
    run = bench.run(*arguments, table=TABLE, env={"MONKEYTREE_VERBS_SHIM": word})
    assert same_calls(run, bench.run(*arguments, shim=False))
    assert (run.log, run.errors) == ((), "")


@pytest.mark.parametrize(("word", "told"), [("on", False), ("", False), ("offf", True)])
def test_a_word_that_it_does_not_know_is_told(bench: Bench, word: str, told: bool) -> None:
    run = bench.run("connect", "1", "2", "1", "plain", table=TABLE, env={"MONKEYTREE_VERBS_SHIM": word})
    assert (len(run.log), '"offf"' in run.errors) == (2, told)


def test_it_does_nothing_when_the_agent_is_gone(bench: Bench) -> None:
    arguments = ("connect", "1", "4", "1", "plain")
    plain = bench.run(*arguments, shim=False)
    with Presence(bench.root / "table"):
        assert set(labels(bench.run(*arguments, table=TABLE)).values()) != {0}
    run = bench.run(*arguments, table=TABLE)  # the lock file is there, and nobody holds it
    (bench.root / "table.lock").unlink()
    assert same_calls(run, plain)
    assert not run.log


def test_a_killed_agent_counts_as_gone(bench: Bench) -> None:
    code = "import sys, time; from pathlib import Path; from monkeytree.agent.presence import Presence\n"
    code += "Presence(Path(sys.argv[1])).__enter__(); print('held', flush=True); time.sleep(60)"
    agent = subprocess.Popen(
        [sys.executable, "-c", code, str(bench.root / "table")],
        stdout=subprocess.PIPE,
        text=True,
        cwd=SOURCES.parents[1],
    )
    try:
        assert agent.stdout is not None
        assert agent.stdout.readline() == "held\n"
        alive = bench.run("connect", "1", "2", "1", "plain", table=TABLE)
    finally:
        agent.kill()
        agent.wait(10)
    gone = bench.run("connect", "1", "2", "1", "plain", table=TABLE)
    (bench.root / "table.lock").unlink()
    assert (len(alive.log), len(gone.log)) == (2, 0)


def test_a_device_that_takes_no_label_gets_the_call_as_it_was(bench: Bench) -> None:
    run = bench.run("connect", "1", "2", "1", "plain", table=TABLE, env={"FAKE_VERBS_REFUSE_LABELS": "1"})
    assert run.output == "0 failures\n"
    assert set(labels(run).values()) == {0}
    assert [(row["what"], row["result"]) for row in run.log] == [("refused", 22)] * 2


@pytest.mark.parametrize("refused", [False, True])
def test_a_log_that_cannot_be_written_stops_nothing_and_leaves_errno_alone(
    bench: Bench, refused: bool
) -> None:
    """The program counts a failure where a call that succeeds has changed errno."""
    env = {"MONKEYTREE_VERBS_LOG": str(bench.root / "no" / "such" / "folder")}
    env |= {"FAKE_VERBS_REFUSE_LABELS": "1"} if refused else {}
    run = bench.run("connect", "2", "4", "1", "plain", table=TABLE, env=env)
    assert (run.output, run.errors) == ("0 failures\n", "")
    assert any(labels(run).values()) != refused


def test_calls_with_more_arguments_than_registers_arrive_whole(bench: Bench) -> None:
    assert bench.run("many").output == bench.run("many", shim=False).output == "3969\n"


def test_the_old_binary_interface_of_modify_qp_is_not_looked_into(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "list").write_text("ibv_modify_qp IBVERBS_1.0\n", "ascii")
    run = bench.run("symbols", str(tmp_path / "list"), table=TABLE)
    assert run.output == "ibv_modify_qp IBVERBS_1.0 77\n"


def test_exported_variables_have_the_real_librarys_values(bench: Bench) -> None:
    code = "import ctypes, sys; print(ctypes.c_ubyte.in_dll(ctypes.CDLL(sys.argv[1]), sys.argv[2]).value)"
    name = next(one.name for one in shipped() if one.size is not None)
    answer = subprocess.run(
        [sys.executable, "-c", code, str(bench.shim), name],
        env={"MONKEYTREE_VERBS_REAL": str(bench.fake)},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert answer.stdout == "7\n"


def test_without_a_real_library_verbs_fail_as_without_a_device(bench: Bench) -> None:
    run = bench.run(
        "connect", "1", "1", "1", "plain", env={"MONKEYTREE_VERBS_REAL": "/nowhere/libibverbs.so.1"}
    )
    assert run.returncode == 5
    assert "no real libibverbs.so.1" in run.errors


def test_it_never_forwards_to_itself_or_to_a_copy_of_itself(bench: Bench, tmp_path: Path) -> None:
    copy = tmp_path / "libibverbs.so.1"
    copy.write_bytes(bench.shim.read_bytes())
    for path in (bench.shim, copy):
        run = bench.run("connect", "1", "1", "1", "plain", env={"MONKEYTREE_VERBS_REAL": str(path)})
        assert run.returncode == 5, path


def test_it_finds_the_real_library_further_down_the_search_path(bench: Bench) -> None:
    places = f"{bench.shim.parent}:{bench.fake.parent}"
    run = bench.run(
        "connect",
        "1",
        "2",
        "1",
        "plain",
        table=TABLE,
        env={"MONKEYTREE_VERBS_REAL": "", "LD_LIBRARY_PATH": places},
    )
    assert run.output == "0 failures\n"
    assert len(run.log) == 2


def test_the_log_may_be_a_directory_with_a_file_for_each_process(bench: Bench, tmp_path: Path) -> None:
    bench.run("connect", "1", "2", "1", "plain", table=TABLE, env={"MONKEYTREE_VERBS_LOG": str(tmp_path)})
    bench.run("connect", "1", "2", "1", "plain", table=TABLE, env={"MONKEYTREE_VERBS_LOG": str(tmp_path)})
    assert [len(path.read_text().splitlines()) for path in tmp_path.glob("*.jsonl")] == [2, 2]


@pytest.mark.parametrize("checker", ["address,undefined", "thread"])
def test_the_sanitizers_find_nothing(bench: Bench, tmp_path: Path, checker: str) -> None:
    flag = f"-fsanitize={checker}"
    try:
        program = compile_c(tmp_path / "program", [Path(__file__).with_name("program.c")], flag)
    except subprocess.CalledProcessError:
        pytest.skip(f"gcc has no {flag} here")
    checked = Bench(tmp_path, program, build(tmp_path / "shim", bench.fake, extra=[flag]), bench.fake)
    env = {"ASAN_OPTIONS": "detect_leaks=0"}  # the program's own; what the shim keeps is its table
    run = checked.run("connect", "8", "6", "2", "plain", table=TABLE, env=env)
    if "unexpected memory mapping" in run.errors:
        pytest.skip("the sanitizer does not run under this kernel's address space randomisation")
    assert (run.returncode, run.output, run.errors) == (0, "0 failures\n", "")
    assert len(run.log) == 72
