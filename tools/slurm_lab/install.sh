#!/bin/sh
# Installs what the lab needs, as root on Debian or Ubuntu; quick where it is there.
set -eu
packages="slurmctld slurmd slurm-client slurmrestd munge slurm-wlm-jwt-plugin slurmdbd slurm-wlm-mysql-plugin mariadb-server"
missing=
for package in $packages; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing="$missing $package"
done
[ -z "$missing" ] && exit 0
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null 2>&1; then
    echo "slurm lab: missing:$missing (Debian, Ubuntu: sudo apt-get install --no-install-recommends$missing)" >&2
    exit 1
fi
# The daemons are ours to start, under a folder of our own: keep apt from starting any.
policy=/usr/sbin/policy-rc.d
if [ ! -e $policy ]; then
    printf '#!/bin/sh\nexit 101\n' >$policy
    chmod 755 $policy
    trap 'rm -f $policy' EXIT
fi
export DEBIAN_FRONTEND=noninteractive
# shellcheck disable=SC2086
apt-get install -y -qq --no-install-recommends $missing >/dev/null 2>&1 \
    || { apt-get update -qq && apt-get install -y -qq --no-install-recommends $missing >/dev/null; }
