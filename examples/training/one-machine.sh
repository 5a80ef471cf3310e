#!/bin/sh
# Four nodes that are all this machine: trains ddp.py on three of them, moves rank 1 to the fourth in
# mid-training, and trains the same again without. The states at the end are equal to the last bit.
#   sh examples/training/one-machine.sh [FOLDER]      needs pip install 'monkeytree[torch,slurm]'
set -eu
here=$(cd "$(dirname "$0")" && pwd)
run=${1:-$(mktemp -d)}
steps=${STEPS:-4000}
port=${PORT:-29511}
python=${PYTHON:-python3}
monkeytree="$python -m monkeytree.cli"
mkdir -p "$run"
export OMP_NUM_THREADS=1
pids=
trap 'kill $pids 2>/dev/null || :' EXIT  # agents, stores and, where something fails, ranks

(umask 077; $python -c 'import secrets; print(secrets.token_hex(32))' > "$run/token")
for node in n0 n1 n2 n3; do
    (umask 077; mkdir "$run/$node")
    $monkeytree agent --node $node --listen 127.0.0.1:0 --data "$run/$node" --token-file "$run/token" \
        > "$run/$node.log" 2>&1 &
    pids="$pids $!"
done

train() {  # NAME PORT AGENTS?
    $python -m monkeytree.agent.pytorch.store 127.0.0.1:$2 > "$run/store-$1.log" 2>&1 &
    pids="$pids $!"
    for rank in 0 1 2; do
        RANK=$rank WORLD_SIZE=3 MASTER_ADDR=127.0.0.1 MASTER_PORT=$2 MONKEYTREE_JOB=$1 \
            MONKEYTREE_AGENT=${3:+$run/n$rank/agent.sock} \
            $python "$here/ddp.py" --steps "$steps" > "$run/$1-$rank.log" 2>&1 &
        eval "rank$rank=$!"
        pids="$pids $!"
    done
}

train moving "$port" agents
until grep -q 'step 100:' "$run/moving-0.log" 2>/dev/null; do sleep 0.2; kill -0 $rank0; done
$monkeytree slurm state --plan by-hand --move 0 --job moving --group 0 --rank 1 --source n1 --target n3 \
    --nodes 'n[0-2]' --agents "$run/{node}/url" --token-file "$run/token"
wait $rank0 $rank1 $rank2
# The rank that has moved says so in the log of its successor, which its new node keeps.
until grep -qs '^rank 1:' "$run"/n3/moves/*.log; do sleep 0.2; done

train staying $((port + 1)) ""
wait $rank0 $rank1 $rank2
sort -u "$run"/moving-?.log "$run"/n3/moves/*.log | grep '^rank' > "$run/moving"
sort -u "$run"/staying-?.log | grep '^rank' > "$run/staying"
cat "$run/moving"
cmp "$run/moving" "$run/staying" && echo "equal to the last bit"
