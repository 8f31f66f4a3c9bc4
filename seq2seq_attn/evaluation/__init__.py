"""Strings or alignment links in, scores out; torch is never imported, so the output of any system can be scored.

`metrics` is the registry of all metrics that a test set is scored by, and how sentences are counted for each.
`corpus_scores` computes those of strings as sacrebleu does, `alignment` and `attention_weights` those of word links and
attention weights. `counts` holds the sufficient statistics of metrics, on which `resampling` (bootstrap, approximate
randomization) and `groups` (scores of groups of sentences) are built; `significance` has the tests over seeds, Holm's
correction and the power of an experiment; `words` measures rare, repeated and missing words; `bayes_risk` chooses among
candidates by a score.
"""
