"""fairseq-preprocess, ended when the process that started it has died (``kill -9``): a script, not to be imported.

Run by its path, with ``python -P``: fairseq refuses a ``--user-dir`` whose package has been imported before.
"""

import os
import threading
import time


def end_with(parent: int) -> None:
    """Watch, in a thread, whether ``parent`` is still the parent of this process."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


if __name__ == "__main__":
    end_with(os.getppid())
    from fairseq_cli.preprocess import cli_main

    cli_main()
