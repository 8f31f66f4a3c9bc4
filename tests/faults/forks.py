"""A process with the shim that has imported everything, and runs each command in a fork of itself.

It reads orders as lines of JSON: {"arguments", "folder", "at", "fault", "error", "for_good", "log", "output"}. For each
it answers with the exit status of the fork, negative for a signal.
"""

import ctypes
import gc
import json
import os
import sys

FAULTS = ("count", "fail", "kill", "torn")


def main() -> None:
    import sacrebleu  # noqa: F401 - imported once, for all forks
    import torch._dynamo  # which torch loads with its first optimizer
    import torch.utils.tensorboard  # noqa: F401

    from seq2seq_attn.analysis import scoring  # noqa: F401
    from seq2seq_attn.cli import main as program
    from seq2seq_attn.comparison import compare  # noqa: F401
    from seq2seq_attn.report import write  # noqa: F401

    gc.freeze()  # no fork visits what all of them share
    shim = ctypes.CDLL(None)
    for line in sys.stdin:
        order = json.loads(line)
        child = os.fork()
        if child == 0:
            run(program, shim, order)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def run(program, shim, order) -> None:
    """The command in this process, which ends with it."""
    with open(order["output"], "wb") as output:
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
    log = os.open(order["log"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC) if order["log"] else -1
    fault, for_good = FAULTS.index(order["fault"]), int(order["for_good"])
    shim.fault_arm(order["folder"].encode(), ctypes.c_long(order["at"]), fault, order["error"], for_good, log)
    code: object = 0
    try:
        program(order["arguments"])
    except SystemExit as end:
        code = end.code
    except BaseException:
        import traceback

        traceback.print_exc()
        code = 99
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code if isinstance(code, int) else 0 if code is None else 1)


if __name__ == "__main__":
    main()
