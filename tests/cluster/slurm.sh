#!/usr/bin/env bash
# A Slurm cluster of two nodes on this machine, without systemd, for tests:
#
#     apt-get install -y --no-install-recommends slurm-wlm munge     # Debian's packages, once
#     tests/cluster/slurm.sh start /tmp/slurm                        # as root; prints what to export
#     export SLURM_CONF=/tmp/slurm/slurm.conf; sinfo
#     tests/cluster/slurm.sh stop /tmp/slurm
#
# Nodes are named n1 and n2, and have two processors each, whatever this machine has. `kill FOLDER n1` ends a node as a power failure does, and
# `node FOLDER n1` starts it again.
set -euo pipefail
folder=$2
export SLURM_CONF=$folder/slurm.conf

daemon() { # NAME COMMAND...: runs a command that stays in the foreground, with its output and process id in the folder
    setsid "${@:2}" > "$folder/$1.log" 2>&1 < /dev/null &
    echo $! > "$folder/$1.pid"
}

node() {
    daemon "$1" slurmd -D -N "$1"
}

end() { # NAME: its whole process group
    [ -f "$folder/$1.pid" ] && kill -KILL -- "-$(cat "$folder/$1.pid")" 2> /dev/null || true
    rm -f "$folder/$1.pid"
}

end_node() { # NAME: with its jobs, and before them the processes that would report their end
    local own parent step
    end "$1"
    own=$(grep -lszx "SLURMD_NODENAME=$1" /proc/[0-9]*/environ || true)
    own=$(grep -lszx "SLURM_CONF=$SLURM_CONF" /dev/null $own | cut -d/ -f3 || true)
    for step in $own; do
        parent=$(ps -o ppid= -p "$step" | tr -d ' ' || true)
        case "$(ps -o comm= -p "${parent:-0}" || true)" in slurmstepd*) kill -KILL "$parent" ;; esac
    done
    [ -z "$own" ] || kill -KILL $own 2> /dev/null || true
}

case $1 in
start)
    mkdir -p "$folder/state" "$folder/n1" "$folder/n2"
    chmod 755 "$folder"
    dd if=/dev/urandom of="$folder/munge.key" bs=1024 count=1 status=none
    chmod 400 "$folder/munge.key"
    free() { python3 -c 'import socket; s = socket.socket(); s.bind(("", 0)); print(s.getsockname()[1])'; }
    cat > "$SLURM_CONF" << CONF
ClusterName=test
SlurmctldHost=$(hostname)(127.0.0.1)
SlurmctldPort=$(free)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$folder/munge.socket,cred_expire=6
CryptoType=crypto/munge
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/%n
SlurmctldPidFile=$folder/slurmctld.own.pid
SlurmdPidFile=$folder/%n.own.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
SlurmdParameters=config_overrides
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
# A test waits neither for a node that does not answer nor for a job that does not end.
SlurmdTimeout=3
KillWait=5
MinJobAge=300
SchedulerParameters=sched_interval=2,bf_interval=2,default_queue_depth=100
NodeName=n1 NodeHostname=$(hostname) NodeAddr=127.0.0.1 Port=$(free) CPUs=2 State=UNKNOWN
NodeName=n2 NodeHostname=$(hostname) NodeAddr=127.0.0.1 Port=$(free) CPUs=2 State=UNKNOWN
PartitionName=all Nodes=n1,n2 Default=YES MaxTime=INFINITE State=UP
CONF
    daemon munged munged --foreground --force --key-file="$folder/munge.key" --socket="$folder/munge.socket" \
        --pid-file="$folder/munged.own.pid" --log-file="$folder/munged.own.log" --seed-file="$folder/munge.seed"
    daemon slurmctld slurmctld -D
    node n1
    node n2
    for _ in $(seq 100); do
        if [ "$(sinfo --noheader --Node --states=idle 2> /dev/null | wc -l)" = 2 ]; then
            echo "export SLURM_CONF=$SLURM_CONF"
            exit
        fi
        sleep 0.2
    done
    tail -n 5 "$folder"/*.log >&2
    "$0" stop "$folder"
    exit 1
    ;;
node) node "$3" ;;
kill) end_node "$3" ;;
stop)
    end_node n1
    end_node n2
    end slurmctld
    end munged
    ;;
esac
