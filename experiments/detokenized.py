"""BLEU of detokenized translations without tokenization, for comparison with papers that score so.

    python experiments/detokenized.py experiments/multi30k-en-de

Reads the translations in results/evidence.json.gz, and the references where its configuration has them. Needs
sacremoses.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from statistics import mean, stdev

from sacremoses import MosesDetokenizer

from seq2seq_attn.evaluation.corpus_scores import Expected, bleu
from seq2seq_attn.files.reading import read_lines
from seq2seq_attn.results.evidence import Evidence


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("experiment", type=Path, help="a folder with results/evidence.json.gz")
    evidence = Evidence.load(parser.parse_args().experiment / "results/evidence.json.gz")
    for arm in evidence.arms:
        # Not `Moses.decode`: the corpus has XML escapes (&quot;), which Moses's own script turns into characters.
        detokenize = MosesDetokenizer(lang=arm.configuration["text"]["target_language"]).detokenize
        references = [detokenize(line.split()) for line in read_lines(arm.configuration["data"]["test"]["target"])]
        expected = Expected([references], tokenize="none")
        scores = [bleu([detokenize(line.split()) for line in run.translations], expected).value for run in arm.runs]
        spread = f" ± {stdev(scores):.1f}" if len(scores) > 1 else ""
        print(f"{arm.name}: {mean(scores):.1f}{spread} ({', '.join(f'{score:.1f}' for score in scores)})")


if __name__ == "__main__":
    main()
