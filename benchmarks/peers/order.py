"""Common code of the drivers: reading an order, writing the result, and measuring a training command.

It runs in the peers' environment, so it does not import seq2seq_attn.
"""

import json
import re
import resource
import statistics
import subprocess
import sys


def read():
    """The order of `python -m benchmarks`: {"job", "effort", "settings", "beam_size", "steps", "sentences"}."""
    return json.load(sys.stdin)


def answer(value, peak_bytes):
    print(json.dumps({"value": value, "peak_bytes": peak_bytes, "parts": {}}))


def updates(order):
    """The number of updates, and of updates per reported rate; the first report is warm-up, at least one follows."""
    warm_up = max(1, order["effort"]["warm_up"])
    reports = -(-order["effort"]["batches"] // warm_up)
    return (1 + reports) * warm_up, warm_up


def train(command, report):
    """Runs a peer's training command and answers with the rate in its log; the pattern `report` matches one rate."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stdout}")
    answer(rate(done.stdout, report), peak_bytes(resource.RUSAGE_CHILDREN))


def rate(log, report):
    """Tokens per second over all reports except the first: their harmonic mean, as each covers the same updates."""
    return statistics.harmonic_mean([float(found) for found in re.findall(report, log)[1:]])


def answer_search(order, seconds, sentences):
    """Tokens per second for batches, milliseconds per sentence for single sentences."""
    is_single = order["job"]["what"].startswith("sentence")
    value = 1000 * seconds / sentences if is_single else sentences * order["steps"] / seconds
    answer(value, peak_bytes(resource.RUSAGE_SELF))


def batch_size(order):
    return 1 if order["job"]["what"].startswith("sentence") else order["job"]["batch"]


def beam_size(order):
    return order["beam_size"] if order["job"]["what"].endswith("beam") else 1


def peak_bytes(whose):
    return resource.getrusage(whose).ru_maxrss * 1024
