#!/bin/sh
# Makes .venv and installs what is missing:  tools/setup.sh run|dev|validation|torch
#
# `validation` adds ns-3 for packet-level replays to what `run` or `dev` has made, `torch` PyTorch for
# `monkeytree drill`. `dev` does so too, but goes on without where that fails: tests then skip what needs it.
# With CI=true it fails instead. PyTorch's own index has a build for CPUs alone, which is smaller by gigabytes:
# PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu tools/setup.sh torch
#
# As root on Debian or Ubuntu the apt packages that are missing are installed too; elsewhere they are
# named and the script stops. Quick when there is nothing to do. PYTHON names the interpreter.
set -eu
cd "$(dirname "$0")/.."
level=${1:?usage: tools/setup.sh run|dev|validation|torch}
stamp=.venv/.installed-$level
python=${PYTHON:-python3}

die() { echo "setup: $*" >&2; exit 1; }

# Is there any `docker-compose config`? (No engine is needed for it.)
has_compose() { command -v docker-compose >/dev/null 2>&1 || docker compose version >/dev/null 2>&1; }

missing_apt() {
    if ! command -v "$python" >/dev/null 2>&1; then echo python3 python3-venv
    elif [ ! -x .venv/bin/python ] && ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then echo python3-venv
    fi
    if [ "$level" = dev ] && ! has_compose; then echo docker-compose; fi
    # Tests that need these are skipped without them, but not in CI: network namespaces; the real libibverbs.
    if [ "$level" = dev ] && [ "${CI:-}" = true ]; then
        command -v ip >/dev/null 2>&1 || echo iproute2
        [ -e /usr/include/infiniband/verbs.h ] || echo libibverbs-dev
    fi
}

# Installs apt packages as root; elsewhere it names them. False where they cannot be had.
apt_install() {
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
        echo "setup: apt-get install $*" >&2
        export DEBIAN_FRONTEND=noninteractive
        apt-get install -y -qq "$@" >/dev/null 2>&1 \
            || { apt-get update -qq && apt-get install -y -qq "$@" >/dev/null; } \
            || { echo "setup: apt-get could not install: $*" >&2; return 1; }
    else
        echo "setup: missing: $* (Debian, Ubuntu: sudo apt-get install $*); install them and run this again" >&2
        return 1
    fi
}

has_ns3() { .venv/bin/python -c 'from importlib.metadata import version as v; v("ns3"); v("cppyy")' 2>/dev/null; }

has_python_h() {
    .venv/bin/python -c 'import os, sysconfig as s; assert os.path.exists(s.get_path("include") + "/Python.h")' 2>/dev/null
}

# Says every 20 s that it is still at it, until killed.
tick() {
    seconds=0
    while sleep 20; do
        seconds=$((seconds + 20))
        echo "setup: still building cppyy ($seconds s)" >&2
    done
}

# Installs what pyproject.toml lists under an extra, in the versions of constraints.txt.
pip_extra() {
    .venv/bin/python -c 'import sys, tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"][sys.argv[1]], sep="\n")' "$1" \
        | xargs -d '\n' .venv/bin/python -m pip install --quiet --disable-pip-version-check --root-user-action=ignore \
            -c constraints.txt
}

# The extra `validation`. A failure is remembered, so that it is not tried at every `make test`.
install_validation() {
    if has_ns3; then return 0; fi
    lacking=
    command -v g++ >/dev/null 2>&1 || lacking="g++"
    has_python_h || lacking="$lacking python3-dev"
    # shellcheck disable=SC2086  # a list of packages
    if [ -n "$lacking" ]; then apt_install $lacking || return 1; fi
    echo "setup: installing ns-3; cppyy is built from source the first time, which takes some minutes" >&2
    tick &
    ticking=$!
    trap 'kill $ticking 2>/dev/null' EXIT
    pip_extra validation
    done=$?
    kill $ticking 2>/dev/null || :
    trap - EXIT
    if [ $done = 0 ] && has_ns3; then return 0; fi
    echo "setup: pip could not install the extra \`validation\` (see above)" >&2
    return 1
}

try_validation() {
    if [ "${CI:-}" = true ]; then install_validation || die "CI needs the extra \`validation\`"
    elif has_ns3 || { [ -f .venv/.no-validation ] && [ ! pyproject.toml -nt .venv/.no-validation ]; }; then return 0
    elif ! install_validation; then
        touch .venv/.no-validation
        echo "setup: going on without ns-3: packet-level tests are skipped (try again: tools/setup.sh validation)" >&2
    fi
}

has_torch() { .venv/bin/python -c 'from importlib.metadata import version as v; v("torch"); v("numpy")' 2>/dev/null; }

# The extra `torch`.
install_torch() {
    if has_torch; then return 0; fi
    echo "setup: installing PyTorch" >&2
    pip_extra torch && has_torch && return 0
    echo "setup: pip could not install the extra \`torch\` (see above)" >&2
    return 1
}

try_torch() {
    if [ "${CI:-}" = true ]; then install_torch || die "CI needs the extra \`torch\`"
    elif has_torch || { [ -f .venv/.no-torch ] && [ ! pyproject.toml -nt .venv/.no-torch ]; }; then return 0
    elif ! install_torch; then
        touch .venv/.no-torch
        echo "setup: going on without PyTorch: what needs it is skipped (try again: tools/setup.sh torch)" >&2
    fi
}

apt=$(missing_apt | tr '\n' ' ')
# shellcheck disable=SC2086  # a list of packages
if [ -n "$apt" ]; then apt_install $apt || exit 1; fi

if [ "$level" = validation ]; then
    .venv/bin/python -c '' 2>/dev/null || die "there is no .venv yet: run tools/setup.sh run first"
    install_validation || exit 1
    exit 0
fi
if [ "$level" = torch ]; then
    .venv/bin/python -c '' 2>/dev/null || die "there is no .venv yet: run tools/setup.sh run first"
    install_torch || exit 1
    exit 0
fi

"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
    || die "$("$python" --version 2>&1) is too old, Python 3.11 or newer is needed; name one: make PYTHON=python3.12 ..."

if [ -f "$stamp" ] && [ ! pyproject.toml -nt "$stamp" ] && [ ! constraints.txt -nt "$stamp" ] \
    && .venv/bin/python -c '' 2>/dev/null && [ "$(cat "$stamp")" = "$PWD" ]; then
    if [ "$level" = dev ]; then try_validation; try_torch; fi
    exit 0
fi

# A checkout that was moved: the scripts in .venv/bin name the interpreter by its old path.
for old in .venv/.installed-*; do
    if [ -f "$old" ] && [ "$(cat "$old")" != "$PWD" ]; then rm -rf .venv; fi
done
if ! .venv/bin/python -m pip --version >/dev/null 2>&1; then
    echo "setup: creating .venv" >&2
    rm -rf .venv
    "$python" -m venv .venv || die "could not create .venv (Debian, Ubuntu: apt-get install python3-venv)"
fi
case $level in
    run) target=. ;;
    dev) target='.[dev]' ;;
    *) die "unknown level '$level', use run, dev, validation or torch" ;;
esac
echo "setup: installing $target into .venv" >&2
.venv/bin/python -m pip install --quiet --disable-pip-version-check --root-user-action=ignore \
    -c constraints.txt -e "$target" || die "pip could not install $target (see above)"
printf '%s' "$PWD" > "$stamp"
if [ "$level" = dev ]; then try_validation; try_torch; fi
