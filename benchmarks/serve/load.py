"""Measures a translation server: requests per second and the time of an answer, by number of concurrent clients.

    python benchmarks/serve/load.py SENTENCES [--address http://127.0.0.1:5000] [--api ours] [--clients 1,8,64]

SENTENCES is a file with one sentence per line. Every client sends one sentence, waits for its translation and sends the
next, for `--seconds` after `--warm-up` seconds. `--api onmt` speaks to the server of OpenNMT-py. Answers that are no
translation are counted as errors and fail the measurement. Prints a line of JSON for each number of clients.
"""

import argparse
import asyncio
import itertools
import json
import sys
import time
from pathlib import Path

import httpx


def ours(sentence, arguments):
    """`POST /translate`, the interface of LibreTranslate."""
    body = {"q": sentence, "source": "auto", "target": arguments.target}
    return "/translate", body, lambda answer: answer["translatedText"]


def onmt(sentence, arguments):
    """OpenNMT-py 3.5: `POST /translator/translate` with a list of sentences for a model by number."""
    return "/translator/translate", [{"src": sentence, "id": arguments.model}], lambda answer: answer[0][0]["tgt"]


APIS = {"ours": ours, "onmt": onmt}


async def measure(arguments, sentences, clients):
    """The record of one number of clients."""
    seconds, errors, began = [], 0, time.perf_counter() + arguments.warm_up
    lines = itertools.cycle(sentences)

    async def one():
        nonlocal errors
        # A connection of its own: a pool that many share searches all of its connections for every request.
        async with httpx.AsyncClient(base_url=arguments.address, timeout=120, verify=False) as client:
            while (started := time.perf_counter()) < began + arguments.seconds:
                path, body, text = APIS[arguments.api](next(lines), arguments)
                try:
                    answer = await client.post(path, json=body)
                    is_translation = answer.status_code == 200 and isinstance(text(answer.json()), str)
                except (httpx.HTTPError, ValueError, LookupError, TypeError):
                    is_translation = False
                done = time.perf_counter()
                if began <= done < began + arguments.seconds:
                    errors += not is_translation
                    seconds.append(done - started)

    await asyncio.gather(*(one() for _ in range(clients)))
    ordered = sorted(seconds)

    def percentile(share):
        """In milliseconds, of all answers."""
        return round(1000 * ordered[min(len(ordered) - 1, int(share * len(ordered)))], 1) if ordered else None

    return {
        "clients": clients,
        "requests": len(ordered),
        "errors": errors,
        "per_second": round(len(ordered) / arguments.seconds, 1),
        **{f"p{share}_ms": percentile(share / 100) for share in (50, 95, 99)},
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sentences", type=Path)
    parser.add_argument("--address", default="http://127.0.0.1:5000")
    parser.add_argument("--api", choices=APIS, default="ours")
    parser.add_argument("--target", default="de", help="language code of the target, for --api ours")
    parser.add_argument("--model", type=int, default=100, help="number of the model, for --api onmt")
    parser.add_argument("--clients", default="1,8,64")
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--warm-up", type=float, default=3)
    arguments = parser.parse_args()
    sentences = [line for line in arguments.sentences.read_text(encoding="utf-8").splitlines() if line.strip()]
    records = []
    for clients in map(int, arguments.clients.split(",")):
        records.append(asyncio.run(measure(arguments, sentences, clients)))
        print(json.dumps({"api": arguments.api, **records[-1]}), flush=True)
    sys.exit(any(record["errors"] or not record["requests"] for record in records))


if __name__ == "__main__":
    main()
