"""The program for tests that run hundreds of its commands: each in a process of its own, which need not import torch.

A server has imported everything. The program on the PATH hands it its arguments, its folder, its environment and its
streams, and a fork of the server runs the command with them; the exit status goes back. A command that is killed ends
without one.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from contextlib import contextmanager

CLIENT = """#!{python} -IS
import json, os, socket, sys
server = socket.socket(socket.AF_UNIX)
server.connect({place!r})
socket.send_fds(server, [b"."], [0, 1, 2])
server.sendall(json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ)]).encode())
server.shutdown(socket.SHUT_WR)
sys.exit(int(server.makefile().read() or "137"))
"""


@contextmanager
def served(folder, environment):
    """In the block, `folder/seq2seq-attn` is the program."""
    client = folder / "seq2seq-attn"
    with tempfile.TemporaryDirectory() as short:  # the path of a socket has at most 103 characters on some systems
        place = f"{short}/server"
        client.write_text(CLIENT.format(python=sys.executable, place=place))
        client.chmod(0o755)
        with subprocess.Popen([sys.executable, __file__, place], env=environment, stdout=subprocess.PIPE) as server:
            try:
                server.stdout.readline()  # it listens
                yield
            finally:
                server.kill()


def main(place):
    import gc

    import sacrebleu  # noqa: F401 - imported once, for all commands
    import scipy.stats  # noqa: F401
    import torch._dynamo  # noqa: F401 - which torch loads with its first optimizer

    from seq2seq_attn.analysis import scoring  # noqa: F401
    from seq2seq_attn.api import comparison, experiments, model, view  # noqa: F401
    from seq2seq_attn.cli import main as program
    from seq2seq_attn.comparison import compare  # noqa: F401
    from seq2seq_attn.report import figures, write  # noqa: F401

    gc.freeze()  # no fork visits what all of them share
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the status of a fork goes to its client
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(place)
        server.listen()
        print(flush=True)
        while True:
            connection, _ = server.accept()
            if os.fork() == 0:
                server.close()
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                run(program, connection)
            connection.close()


def run(program, connection):
    """Runs a command in this process, which ends with it."""
    _, streams, *_ = socket.recv_fds(connection, 1, 3)
    arguments, folder, environment = json.load(connection.makefile())
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv, sys.path[0] = ["seq2seq-attn", *arguments], ""  # as `python -m seq2seq_attn`
    sys.stdin, sys.stdout, sys.stderr = os.fdopen(0), os.fdopen(1, "w"), os.fdopen(2, "w", buffering=1)
    status = 1
    try:
        program(arguments)
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        import traceback

        traceback.print_exc()
    sys.stdout.flush()
    connection.sendall(str(status).encode())
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1])
