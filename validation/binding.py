"""The one door to ns-3: finds the ``ns3`` wheel, builds our models against it, loads them by cppyy.

The models are compiled on first use into a cache, under a name made of the sources, the wheel's
version and its place. Without a compiler Cling compiles them in each process (seconds instead of
tenths). The wheel's own ``from ns import ns`` is never used: it parses 44 modules' headers and
searches the working directory.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.metadata
import importlib.util
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .errors import ValidationUnavailable

NATIVE = Path(__file__).parent / "native"
MODULES = ("core", "stats", "network")
# As the wheel itself was built; C++20 is what its headers need.
DEFINES = ("NS3_BUILD_PROFILE_RELEASE", "NS3_LOG_ENABLE", "NS3_ASSERT_ENABLE")
FLAGS = ("-std=c++20", "-O2", "-fPIC", "-shared")
CURE_WHEEL = "install the extra: pip install 'monkeytree[validation]' (Linux x86-64, g++ and python3-dev)"
CURE_COMPILER = "install g++ (Debian, Ubuntu: apt-get install g++)"


@dataclass(frozen=True, slots=True)
class Wheel:
    """The installed ns-3: its version and folder."""

    version: str
    root: Path

    @property
    def include(self) -> Path:
        """Headers, as ``ns3/node.h``."""
        return self.root / "include"

    @property
    def lib(self) -> Path:
        """Shared libraries."""
        return self.root / "lib64"

    def library(self, module: str) -> Path:
        """The shared library of one ns-3 module."""
        return self.lib / f"libns{self.version}-{module}.so"


def find_wheel() -> Wheel:
    """The ns3 wheel, found without importing it.

    Raises:
        ValidationUnavailable: it, or cppyy, or a part of it is missing.
    """
    spec = importlib.util.find_spec("ns3")
    places = (spec.submodule_search_locations or ()) if spec else ()
    # A folder ns3 in the working directory is no wheel.
    roots = [Path(place) for place in places if (Path(place) / "include" / "ns3").is_dir()]
    if not roots:
        raise ValidationUnavailable(f"the ns3 wheel is not installed: {CURE_WHEEL}")
    if importlib.util.find_spec("cppyy") is None:
        raise ValidationUnavailable(f"cppyy is not installed: {CURE_WHEEL}")
    try:
        full = importlib.metadata.version("ns3")
    except importlib.metadata.PackageNotFoundError:
        raise ValidationUnavailable(
            f"{roots[0]} is no ns3 wheel (it has no metadata): {CURE_WHEEL}"
        ) from None
    wheel = Wheel(".".join(full.split(".")[:2]), roots[0])
    needed = [wheel.include / "ns3" / "net-device.h", *(wheel.library(module) for module in MODULES)]
    for part in needed:
        if not part.is_file():
            raise ValidationUnavailable(
                f"the ns3 wheel {full} lacks {part}: pip install --force-reinstall ns3"
            )
    return wheel


def sources() -> list[Path]:
    """Our C++ files, headers too, in order of name."""
    return sorted(NATIVE.glob("*.h")) + sorted(NATIVE.glob("*.cc"))


def library_path(wheel: Wheel) -> Path:
    """Where the compiled models of these sources and this wheel lie, or would."""
    digest = hashlib.sha256()
    for part in (wheel.version, str(wheel.root), *FLAGS, *DEFINES):
        digest.update(part.encode() + b"\0")
    for source in sources():
        digest.update(source.name.encode() + b"\0" + source.read_bytes())
    return _cache() / f"libmonkeytree-roce-{digest.hexdigest()[:24]}.so"


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    for folder in (Path(base), Path(tempfile.gettempdir()) / f"monkeytree-{os.getuid()}"):
        place = folder / "monkeytree"
        try:
            place.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError:
            continue
        if os.access(place, os.W_OK) and place.stat().st_uid == os.getuid():
            return place
    raise ValidationUnavailable(
        f"no folder to keep the compiled models in: make {base} writable, or set XDG_CACHE_HOME"
    )


def compiler() -> str | None:
    """The C++ compiler: CXX, g++ or c++."""
    return shutil.which(os.environ.get("CXX") or "g++") or shutil.which("c++")


def build(say: Callable[[str], None] | None = None) -> Path | None:
    """Compile the models unless that has been done; None when there is no compiler (JIT then).

    Raises:
        ValidationUnavailable: no wheel, or the compiler fails.
    """
    wheel = find_wheel()
    path = library_path(wheel)
    if path.exists():
        return path
    program = compiler()
    if program is None:
        return None
    with open(path.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            if say is not None:
                say("compiling the packet models against ns-3 (once)")
            _compile(program, wheel, path)
    return path


def _compile(program: str, wheel: Wheel, path: Path) -> None:
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        unit = Path(folder) / "models.cc"
        unit.write_text(_one_unit(), "utf-8")
        made = Path(folder) / "models.so"
        command = [program, *FLAGS, *(f"-D{name}" for name in DEFINES), "-isystem", str(wheel.include)]
        command += [str(unit), "-o", str(made), *(str(wheel.library(module)) for module in MODULES)]
        command += [f"-Wl,-rpath,{wheel.lib}", "-Wl,--allow-shlib-undefined"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode or not made.exists():
            said = " / ".join(line for line in done.stderr.splitlines() if "error" in line.lower())[:400]
            raise ValidationUnavailable(
                f"{program} could not compile the packet models against ns-3 {wheel.version}: "
                f"{said or f'exit code {done.returncode}'}; {CURE_COMPILER}, 11 or newer"
            )
        os.replace(made, path)


def _one_unit() -> str:
    """All sources as one: compiled in half the time, and inlined across files."""
    return "".join(f'#include "{source}"\n' for source in sources() if source.suffix == ".cc")


def load() -> Any:
    """The C++ namespace ``mt``: the class ``Replay`` and its records. One run per process.

    Raises:
        ValidationUnavailable: it cannot be had here.
    """
    wheel = find_wheel()
    path = build()
    import cppyy

    for module in MODULES:
        # Before any header: ns-3 has statics in headers whose constructors are in these.
        cppyy.load_library(str(wheel.library(module)))
    if path is not None:
        cppyy.include(str(NATIVE / "replay.h"))
        cppyy.load_library(str(path))
    else:
        cppyy.add_include_path(str(wheel.include))
        defines = "".join(f"#ifndef {name}\n#define {name}\n#endif\n" for name in DEFINES)
        cppyy.cppdef(defines + _one_unit())
    cppyy.gbl.mt.Replay.Run.__release_gil__ = True
    return cppyy.gbl.mt


def int_vector(values: tuple[int, ...]) -> Any:
    """A ``std::vector<int>``."""
    import cppyy

    return cppyy.gbl.std.vector[int](values)
