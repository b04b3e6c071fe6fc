"""A process that compiles: LLVM text enters on standard input, object code leaves on standard output.

Each request is `level, length, text`, each answer `status, length, bytes`: object code, or the text of an
error. It ends when its input ends. `parallel` starts it; a process and not a thread, because LLVM holds one
lock per process, and not a fork, because a fork of a process with threads may never wake up again.
"""

from __future__ import annotations

import struct
import sys
from typing import BinaryIO

from trilobite.base.errors import TrilobiteError

REQUEST = struct.Struct("<BQ")
ANSWER = struct.Struct("<BQ")
COMPILED, REFUSED = 0, 1


def serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Answers in order until the input ends."""
    from trilobite.native.host import features
    from trilobite.native.objects import compile_object

    while len(head := requests.read(REQUEST.size)) == REQUEST.size:
        level, length = REQUEST.unpack(head)
        text = requests.read(length).decode()
        try:
            status, answer = COMPILED, compile_object(text, level, features())
        except TrilobiteError as error:
            status, answer = REFUSED, str(error).encode()
        answers.write(ANSWER.pack(status, len(answer)) + answer)
        answers.flush()


if __name__ == "__main__":
    serve(sys.stdin.buffer, sys.stdout.buffer)
