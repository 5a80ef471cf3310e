#!/bin/sh
# Runs a command beside a PostgreSQL of its own:  tools/postgres.sh COMMAND [ARGUMENT...]
#
# The command finds the server's URL in TEST_DATABASE_URL. It listens on a Unix socket in a new folder only, and
# both are removed at the end, however that comes about. As root it runs as the user `postgres` of the package.
#
# The cluster is set up unlike what the code would like: another time zone, another order of names, and
# transactions that are serializable unless somebody says otherwise. What passes here does not lean on defaults.
set -eu
[ $# -gt 0 ] || { echo "usage: tools/postgres.sh COMMAND [ARGUMENT...]" >&2; exit 2; }

# The newest that is installed: Debian keeps the server's programs off PATH.
bin=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -n 1)
[ -x "${bin:-}/initdb" ] || bin=$(dirname "$(command -v initdb || echo /nowhere/initdb)")
if [ ! -x "$bin/initdb" ] || [ ! -x "$bin/pg_ctl" ]; then
    echo "postgres: no server is installed (Debian, Ubuntu: sudo apt-get install postgresql)" >&2
    exit 1
fi

as=
if [ "$(id -u)" = 0 ]; then
    id postgres >/dev/null 2>&1 || { echo "postgres: there is no user postgres; the server refuses to run as root" >&2; exit 1; }
    as="runuser -u postgres --"
fi
# A socket's path takes 107 characters: not under TMPDIR, which may be deep.
folder=$(mktemp -d /tmp/monkeytree-postgres.XXXXXX)
stop() {
    cd /
    [ ! -f "$folder/data/postmaster.pid" ] || $as "$bin/pg_ctl" -D "$folder/data" -m immediate -w stop >/dev/null 2>&1 || :
    rm -rf "$folder"
}
trap stop EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
[ -z "$as" ] || chown postgres "$folder"

# shellcheck disable=SC2086  # $as is a command and its arguments
start() {
    $as "$bin/initdb" -D "$folder/data" -A trust -U monkeytree -E UTF8 --no-locale --no-sync >"$folder/log" 2>&1 &&
    $as tee -a "$folder/data/postgresql.conf" >/dev/null <<CONF &&
listen_addresses = ''
unix_socket_directories = '$folder'
unix_socket_permissions = 0700
max_connections = 300
fsync = off
timezone = 'Pacific/Chatham'
default_transaction_isolation = 'serializable'
CONF
    $as "$bin/pg_ctl" -D "$folder/data" -l "$folder/data/log" -w -t 120 start >>"$folder/log" 2>&1 &&
    # Names in the order of a language, not of bytes, where this server has such orders.
    { ask "CREATE DATABASE monkeytree TEMPLATE template0 LOCALE_PROVIDER icu ICU_LOCALE 'en-US'" 2>/dev/null ||
        ask "CREATE DATABASE monkeytree"; } >>"$folder/log" 2>&1
}
ask() { "$bin/psql" -X -q -h "$folder" -U monkeytree -d postgres -c "$1"; }

if ! (cd "$folder" && start); then
    echo "postgres: the server did not start:" >&2
    tail -n 20 "$folder/log" "$folder/data/log" >&2 || :
    exit 1
fi
TEST_DATABASE_URL="postgresql://monkeytree@/monkeytree?host=$folder" "$@"
