"""Strings or alignment links in, scores out; torch is never imported: any system's output can be scored.

`metrics` BLEU, chrF and TER with their signatures; `lc_norm_tok` the lowercased tokenised BLEU of the
Multi30k papers; `length` BLEU by source length; `bootstrap` confidence intervals and the paired test;
`pharaoh` word alignments as text; `alignment` their error rate; `attention_links` alignments from weights.
"""
