"""Measurements written by hand."""

from benchmarks.records import OURS, Job, Measurement

PEER = "JoeyNMT Bahdanau, input feeding"


def measurement(what, *values, precision="bf16", system=OURS, parts=None, peak=1_250_000_000, **setting):
    job = Job(what, "additive", precision, threads=2, **setting)
    return Measurement(system, job, values, [peak] * len(values), parts or {})
