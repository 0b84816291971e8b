"""`python -m quadsim`, and the command `quadsim`."""

import atexit
import gc
import os
import signal
import sys
import threading
import time
from types import FrameType
from typing import Any

from quadsim._validation import PREFIX
from quadsim.cli.main import main

RETRY_SECONDS = 0.02
MAX_DEFERRAL_SECONDS = 1.0
INTERRUPTED = 130  # exit code


class _Interrupts:
    """The SIGINT handler of this process while it runs a command.

    During the command, SIGINT raises KeyboardInterrupt, so that locks and temporary files are removed; a second one
    within a second is deferred, since it would interrupt the clean-up. Before and after the command (imports, joining
    threads, atexit) an exception would only print a traceback, so the process ends at once.
    """

    def __init__(self) -> None:
        self.running = False
        self.first: float | None = None  # time of the first SIGINT
        self.raised = False  # whether KeyboardInterrupt was raised in the command
        self.code: int | None = None

    def install(self) -> None:
        """Handle SIGINT, unless it is ignored, as in a shell's background jobs."""
        if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
            signal.signal(signal.SIGINT, self._handle)
            sys.unraisablehook = self._unraisable
            atexit.register(self._exit)  # the first to be registered is the last to be called

    def _handle(self, _: int, frame: FrameType | None) -> None:
        if not self.running:
            self.end()
        self.first = self.first or time.monotonic()
        # packages may catch an exception that is raised in an import, or turn it into an ImportError
        if (self.raised or _importing(frame)) and time.monotonic() - self.first < MAX_DEFERRAL_SECONDS:
            self._deliver_again()
        else:
            self.raised = True
            raise KeyboardInterrupt

    def _unraisable(self, failure: Any) -> None:
        """Handle an exception in a callback (of a weak reference, of LLVM), which Python would print and ignore."""
        if failure.exc_type is not KeyboardInterrupt:
            sys.__unraisablehook__(failure)
        elif self.running:
            self.raised = False
            self._deliver_again()

    @staticmethod
    def _deliver_again() -> None:
        def deliver() -> None:
            time.sleep(RETRY_SECONDS)
            main_thread = threading.main_thread().ident
            if main_thread is not None:  # to that thread, which may be waiting for a lock
                signal.pthread_kill(main_thread, signal.SIGINT)

        threading.Thread(target=deliver, daemon=True).start()

    def _exit(self) -> None:
        """End here with this exit code, without tearing down the interpreter.

        Teardown restores the default handler, so that SIGINT would kill the process after its work was done; and Python
        ends by SIGINT if KeyboardInterrupt ever passed through the built-in exec, whatever the exit code.
        """
        if self.code is None:
            return  # an error is being reported
        try:
            for stream in filter(None, (sys.stdout, sys.stderr)):
                stream.flush()
        except (OSError, ValueError):
            if self.code != INTERRUPTED:
                return  # Python reports output that cannot be written
        os._exit(self.code)

    def end(self) -> None:
        """End the process now; a command that an interrupt ended has already printed the message."""
        try:
            if self.code != INTERRUPTED:
                os.write(2, f"{PREFIX}interrupted\n".encode())
        finally:
            os._exit(INTERRUPTED)


def _importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


def start() -> int:
    """Run the command line of this process; the exit code."""
    gc.set_threshold(100_000)  # imports make objects by the hundred thousand: collecting after each 700 costs 0.2 s
    interrupts = _Interrupts()
    interrupts.install()
    try:
        interrupts.running = True
        interrupts.code = main()
        interrupts.running = False
        return interrupts.code
    except BaseException as error:
        interrupts.running = False
        if interrupts.first is None and not isinstance(error, KeyboardInterrupt):
            raise
        interrupts.end()  # an interrupt that an import turned into another exception, or a second one
        raise


if __name__ == "__main__":
    sys.exit(start())
