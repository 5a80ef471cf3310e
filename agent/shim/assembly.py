"""Writes what the C sources cannot say: trampolines, their symbol versions, and the table of names.

A trampoline jumps to the address in its slot and touches no register that carries arguments, so it needs to
know nothing of the function it stands for. Slots are filled when the shim is loaded (shim.c).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from .symbols import MARK, Symbol

# x16 is the register the procedure call standard leaves to veneers (AAPCS64, 6.1.1).
_JUMPS = {
    "x86_64": "    endbr64\n    jmp *mt_slots+{offset}(%rip)\n",
    "aarch64": "    hint #34\n    adrp x16, mt_slots+{offset}\n"
    "    ldr x16, [x16, #:lo12:mt_slots+{offset}]\n    br x16\n",
}
MACHINES = tuple(_JUMPS)


def trampolines(symbols: Sequence[Symbol], machine: str) -> str:
    """The assembler source for ``machine`` (a key of :data:`MACHINES`, as ``uname -m`` says it)."""
    parts = ["    .hidden mt_slots\n    .text\n"]
    for index, symbol in enumerate(symbols):
        label = f"mt_symbol_{index}"
        if symbol.size is None:
            jump = _JUMPS[machine].format(offset=8 * index)
            parts.append(
                f"    .balign 16\n    .globl {label}\n    .type {label}, %function\n{label}:\n{jump}"
            )
        else:
            parts.append(
                f"    .bss\n    .balign 16\n    .globl {label}\n    .type {label}, %object\n{label}:\n"
            )
            parts.append(f"    .zero {symbol.size}\n    .text\n")
        parts.append(f"    .size {label}, {symbol.size or f'. - {label}'}\n")
        parts.append(f"    .symver {label}, {symbol.name}{'@@' if symbol.default else '@'}{symbol.version}\n")
    parts.append('    .section .note.GNU-stack, "", %progbits\n')
    return "".join(parts)


def version_script(symbols: Iterable[Symbol]) -> str:
    """The linker's version script: every version node, and nothing exported that is not named."""
    nodes: dict[str, list[str]] = {}
    for symbol in symbols:
        nodes.setdefault(symbol.version, []).append(symbol.name)
    text = f"MONKEYTREE_1 {{ global: {MARK}; local: *; }};\n"
    for version, names in sorted(nodes.items()):
        text += f"{version} {{ global: {' '.join(f'{name};' for name in sorted(set(names)))} }};\n"
    return text


def name_table(symbols: Sequence[Symbol], built_for: str) -> str:
    """The C source of ``mt_symbols`` (shim.h); ``built_for`` is the path the symbols were read from."""
    rows = []
    declared = []
    for index, symbol in enumerate(symbols):
        absent = "mt_absent_pointer" if symbol.gives_pointer else "mt_absent_status"
        data = "0"
        if symbol.size is not None:
            declared.append(f"extern char mt_symbol_{index}[];\n")
            data = f"mt_symbol_{index}"
        rows.append(
            f'    {{"{symbol.name}", "{symbol.version}", (void *){absent}, {data}, {symbol.size or 0}}},\n'
        )
    return (
        f'#include "shim.h"\n\n{"".join(declared)}'
        f"const char mt_built_for[] = {json.dumps(built_for)};\n"
        f"const unsigned mt_symbol_count = {len(symbols)};\n"
        f"void *mt_slots[{len(symbols)}];\n"
        f"const struct mt_symbol mt_symbols[] = {{\n{''.join(rows)}}};\n"
    )
