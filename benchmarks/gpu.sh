#!/usr/bin/env bash
# What only a GPU can show, in one call of under eight minutes: the tests of tests/cuda; training and decoding beside
# OpenNMT-py, one after the other on the same card; and the minutes to 38 BLEU on Multi30k.
#
#   benchmarks/gpu.sh PEERS OUTPUT     PEERS: prepared by benchmarks/peers/setup.sh; OUTPUT: a folder for what is found
#
# Every part is run, whatever becomes of the one before; the exit code is 1 if one failed.
set -uo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
peers=$(cd "$1" && pwd)
mkdir -p "$2"
output=$(cd "$2" && pwd)
cd "$root"
python=${PYTHON:-python}
failed=0
step() {  # NAME COMMAND...: the output in OUTPUT/NAME.log, its end shown
    echo "== $1"
    "${@:2}" > "$output/$1.log" 2>&1 || failed=1
    tail -n 25 "$output/$1.log"
}
nvidia-smi --query-gpu=name,driver_version --format=csv,noheader | tee "$output/card"
step quality "$python" benchmarks/quality.py train "$peers" seq2seq_attn --minutes 1.5 --output "$output/quality.json"
step speed "$python" -m benchmarks --device cuda --peers "$peers" --what training,greedy,beam --model additive,general-feed \
    --warm-up 50 --batches 100 --repeats 1 --output "$output/speed.json"
step tests "$python" -m pytest -q -p no:cacheprovider tests/cuda
exit $failed
