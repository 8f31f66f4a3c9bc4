"""What Vaswani et al. 2017 say about self-attention and recurrence (section 4, table 1), measured part by part.

    python experiments/self-attention/measure.py count    # multiplications and operations in sequence; seconds
    python experiments/self-attention/measure.py order    # does a layer know the order of the words? seconds
    python experiments/self-attention/measure.py path     # how far does a gradient reach? a minute
    python experiments/self-attention/measure.py tasks    # what models learn, and up to which length; half an hour
    python experiments/self-attention/measure.py speed    # tokens/s, latency and memory; on an idle machine

Each part replaces its own results in results.json, draws its pictures beside it, and writes its tables into
docs/self-attention.md. `tasks` keeps its models in runs/self-attention and continues there if it was interrupted.
"""

from __future__ import annotations

import argparse
import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pictures
from layers import count
from order import order
from page import FOLDER, fill
from paths import path
from tasks import tasks
from throughput import speed

from seq2seq_attn.ops.host import keep_freed_memory
from seq2seq_attn.runs.provenance import run_provenance

HERE = Path(__file__).parent
RESULTS, PAGE = HERE / "results.json", HERE.parents[1] / "docs/self-attention.md"

PARTS: dict[str, Callable[[], dict[str, Any]]] = {
    "count": lambda: count([10, 20, 50, 100, 200, 500, 1000]),
    "order": lambda: order(range(1, 11), length=12),
    "path": lambda: path(range(1, 11), farthest=500),
    "tasks": lambda: tasks([1, 2, 3], [2, 5, 10, 12, 15, 20, 30, 50], 100, Path("runs/self-attention"), epochs=4),
    "speed": lambda: speed([10, 20, 50, 100, 200, 500, 1000], batches=5, rounds=3),
}
DRAWINGS = {part: getattr(pictures, f"draw_{part}") for part in PARTS if part != "count"}


def measure(part: str, results: Path = RESULTS, page: Path = PAGE) -> None:
    """Measures one part and replaces its results, pictures and tables."""
    made = run_provenance("cpu")
    started = time.perf_counter()
    found = PARTS[part]()
    found["made"] = made | {
        "command": f"python {FOLDER}/measure.py {part}",
        "seconds": round(time.perf_counter() - started, 1),
    }
    everything = json.loads(results.read_text(encoding="utf-8")) if results.exists() else {}
    everything = {name: {**everything, part: found}[name] for name in PARTS if name in {*everything, part}}
    results.write_text(f"{_text(everything)}\n", encoding="utf-8")
    if part in DRAWINGS:
        pictures.save(DRAWINGS[part](found), results.parent)
    page.write_text(fill(page.read_text(encoding="utf-8"), everything), encoding="utf-8")


def _text(values: dict[str, Any]) -> str:
    """JSON with a line for every innermost list."""
    text = json.dumps(values, indent=1, ensure_ascii=False)
    return re.sub(r"\[[^\[\]{}]*\]", lambda found: " ".join(found[0].split()), text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=PARTS)
    keep_freed_memory()
    measure(parser.parse_args().part)


if __name__ == "__main__":
    main()
