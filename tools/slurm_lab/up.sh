#!/bin/bash
# Brings a Slurm cluster up on loopback, without systemd, as root:  up.sh DIR NODES PER_RACK [--gres] [--port-base N]
#
# munged, MariaDB (unix socket only), slurmdbd, slurmctld and one slurmd a node, all under DIR; ends when all
# nodes are idle. down.py ends them. export SLURM_CONF=DIR/slurm.conf to speak to it.
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
D=$(readlink -m "$1")
N=$2
"${PYTHON:-python3}" "$here/configure.py" "$D" "${@:2}"
export SLURM_CONF=$D/slurm.conf MYSQL_UNIX_PORT=$D/run/mysql.sock
die() { echo "up.sh: $*; see $D/log" >&2; exit 1; }

# tries COMMAND...: until it succeeds, for 40 s at most.
tries() {
    for _ in $(seq 200); do
        if timeout 10 "$@" >/dev/null 2>&1; then return 0; fi
        sleep 0.2
    done
    return 1
}

munged --force --num-threads=2 --key-file="$D/munge/key" --socket="$D/run/munge.sock" \
    --pid-file="$D/run/munged.pid" --log-file="$D/munge/munged.log" --seed-file="$D/munge/seed"

[ -d "$D/db/mysql" ] || mariadb-install-db --user=root --datadir="$D/db" --skip-test-db \
    --auth-root-authentication-method=socket >"$D/log/dbinstall.log" 2>&1 || die "no database"
setsid mariadbd --no-defaults --user=root --datadir="$D/db" --socket="$MYSQL_UNIX_PORT" --pid-file="$D/run/mysqld.pid" \
    --skip-networking --innodb-buffer-pool-size=64M --innodb-log-file-size=16M --innodb-lock-wait-timeout=900 \
    --innodb-flush-log-at-trx-commit=2 >"$D/log/mariadb.log" 2>&1 </dev/null &
tries mariadb-admin --socket="$MYSQL_UNIX_PORT" ping || die "MariaDB does not answer"
mariadb --socket="$MYSQL_UNIX_PORT" -e "create database if not exists slurm_acct_db"

slurmdbd
tries sacctmgr -n show cluster || die "slurmdbd does not answer"
timeout 20 sacctmgr -i add cluster lab >/dev/null 2>&1 || true
timeout 20 sacctmgr -i add account root Cluster=lab >/dev/null 2>&1 || true

slurmctld -f "$SLURM_CONF"
for n in $(seq -f %03g 1 "$N"); do slurmd -f "$SLURM_CONF" -N "node$n"; done
all_idle() { [ "$(sinfo -h -o '%D %t')" = "$N idle" ]; }
for _ in $(seq 200); do
    if all_idle 2>/dev/null; then exit 0; fi
    sleep 0.2
done
timeout 10 sinfo >&2 || true
die "not all nodes got idle"
