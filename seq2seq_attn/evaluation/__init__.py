"""Strings or alignment links in, scores out; torch is never imported: any system's output can be scored.

`metrics` BLEU, chrF, TER and exact matches with their signatures; `lc_norm_tok` the lowercased tokenised BLEU of
the Multi30k papers; `length` BLEU by source length; `sentence` the score of each line by itself.
`counts` what BLEU and chrF are made of, for tests that make BLEU thousands of times: `bootstrap` intervals over test
sets and the paired test, `randomisation` the other paired test. `seeds` interval and test over seeds; `power` the
smallest difference that could have been found; `holm` the correction for several comparisons.
`groups` scores of groups of sentences; `frequency` how rare their words are, `reordering` how far they are moved;
`faults` what is said twice or left out; `words` what a word is in these.
`pharaoh` word alignments as text; `alignment` their error rate; `attention_links` alignments from weights;
`symmetrisation` one alignment from those of two directions; `entropy` how sharply the weights look.
"""
