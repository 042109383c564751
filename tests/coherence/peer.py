"""A process on a node that does what the test asks: one line of Python each, one line of answer each.

The file of the test is `path`. A call that fails answers with the name of its errno.
"""
import errno
import fcntl
import mmap
import os
import signal
import struct
import sys
import time

path = sys.argv[1]


def alarm(seconds):
    """Interrupts the next call that waits, once."""
    def ring(*_):
        raise OSError(errno.EINTR, "alarm")

    signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)


print(os.getpid(), flush=True)
for line in sys.stdin:
    try:
        try:
            answer = repr(eval(line))
        except SyntaxError:
            exec(line)
            answer = "done"
    except OSError as error:
        answer = errno.errorcode[error.errno]
    print(answer, flush=True)
