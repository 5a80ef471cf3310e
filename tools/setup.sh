#!/bin/sh
# Makes .venv and installs what is missing:  tools/setup.sh run|dev
#
# As root on Debian or Ubuntu the apt packages that are missing are installed too; elsewhere they are
# named and the script stops. Quick when there is nothing to do. PYTHON names the interpreter.
set -eu
cd "$(dirname "$0")/.."
level=${1:?usage: tools/setup.sh run|dev}
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
}

apt=$(missing_apt | tr '\n' ' ')
if [ -n "$apt" ]; then
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
        echo "setup: apt-get install $apt" >&2
        export DEBIAN_FRONTEND=noninteractive
        # shellcheck disable=SC2086  # a list of packages
        apt-get install -y -qq $apt >/dev/null 2>&1 \
            || { apt-get update -qq && apt-get install -y -qq $apt >/dev/null; } \
            || die "apt-get could not install: $apt"
    else
        die "missing: $apt- install them (Debian, Ubuntu: sudo apt-get install $apt) and run this again"
    fi
fi

"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
    || die "$("$python" --version 2>&1) is too old, Python 3.11 or newer is needed; name one: make PYTHON=python3.12 ..."

if [ -f "$stamp" ] && [ ! pyproject.toml -nt "$stamp" ] && [ ! constraints.txt -nt "$stamp" ] \
    && .venv/bin/python -c '' 2>/dev/null && [ "$(cat "$stamp")" = "$PWD" ]; then
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
    *) die "unknown level '$level', use run or dev" ;;
esac
echo "setup: installing $target into .venv" >&2
.venv/bin/python -m pip install --quiet --disable-pip-version-check --root-user-action=ignore \
    -c constraints.txt -e "$target" || die "pip could not install $target (see above)"
printf '%s' "$PWD" > "$stamp"
