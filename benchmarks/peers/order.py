"""What the drivers share: the order that comes in, the outcome that goes out, and a training watched from outside.

It runs in the peers' environment, so it imports nothing of seq2seq_attn.
"""

import json
import re
import resource
import statistics
import subprocess
import sys


def read():
    """What `seq2seq-attn bench` wants: {"job", "effort", "settings", "beam_size", "steps", "sentences"}."""
    return json.load(sys.stdin)


def answer(value, peak_bytes):
    print(json.dumps({"value": value, "peak_bytes": peak_bytes, "parts": {}}))


def updates(order):
    """How many, and after how many each a rate is reported: the first report is the warm-up's, at least one follows."""
    warm_up = max(1, order["effort"]["warm_up"])
    reports = -(-order["effort"]["batches"] // warm_up)
    return (1 + reports) * warm_up, warm_up


def train(command, report):
    """Runs a peer's own training and answers with the rate that it reports itself; `report` matches one of them."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stdout}")
    answer(rate(done.stdout, report), peak_bytes(resource.RUSAGE_CHILDREN))


def rate(log, report):
    """Tokens a second over all reports but the first: each is of as many batches, so the mean is the harmonic one."""
    return statistics.harmonic_mean([float(found) for found in re.findall(report, log)[1:]])


def answer_search(order, seconds, sentences):
    """Tokens a second in batches, or milliseconds a sentence."""
    alone = order["job"]["what"].startswith("sentence")
    value = 1000 * seconds / sentences if alone else sentences * order["steps"] / seconds
    answer(value, peak_bytes(resource.RUSAGE_SELF))


def batch_size(order):
    return 1 if order["job"]["what"].startswith("sentence") else order["job"]["batch"]


def beam_size(order):
    return order["beam_size"] if order["job"]["what"].endswith("beam") else 1


def peak_bytes(whose):
    return resource.getrusage(whose).ru_maxrss * 1024
