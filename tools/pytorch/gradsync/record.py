"""The command `record`: measures the steps of a PyTorch script, so that `what_if` can predict the
script's steps on several ranks.

    torchrun --nproc_per_node=2 -m gradsync record [--out=FILE] [--rounds=N] [--no-ddp] [--continue]
        [--model=N] train.py ARGS...
    python -m gradsync record train.py ARGS...

The command runs a script (or, with -m, a module) unchanged. When enough steps are recorded, it ends
the script or, with --continue, lets it go on training. If the script wraps models in DDP, `record`
records the first of these models that trains or, with --model=N, the Nth model that the script
wraps. If the script uses no DDP, `record` takes the first optimizer that steps with gradients (with
--model=N, the Nth). `record` then records the outermost called module that has all of this
optimizer's parameters with gradients; script.py describes exceptions. A script with several
processes and no DDP must have called fully_shard with this module. In a training loop of your own,
such as one in a notebook, make a Recorder(model, FILE), and train until its attribute `done` is
True. The model may be in DDP, under fully_shard or neither; its parameters must be on one CPU or
one CUDA GPU.

`record` needs PyTorch 2.3 or newer, and no other package. record_flags.py says what `record` cannot
record, and recorder.py says how it records. With one process, `record` measures no collectives. For
a recording of one process, `what_if` needs two flags: --world_size, and --link, which states a
link's speed or names a file of measurements. torch.compile usually compiles the model in the first
steps, which the recording leaves out.

Each recorded start of the script (a launch) adds a line of JSON to FILE. Start the script several
times, because steps take different times in different launches, for example because memory
addresses differ. schema.py defines the fields of the line that a launch adds to FILE, the file
named by --out. The field `memory` has the bytes that rank 0's tensors need at different times of
one step without synchronisation (live.py). The field `memory` is missing if torch.compile had
compiled anything before the step in which live.py measures.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

import torch

from gradsync.launch_file import UnusableFile, check_usable
from gradsync.record_flags import parser
from gradsync.recorder import Recorder
from gradsync.script import Options, Script, say
from gradsync.torch_private import pytorch_version

__all__ = ["Recorder", "main"]

TRIED = (2, 3), (2, 15)  # the first and the last tested version of PyTorch


def is_there(name: str, is_module: bool) -> bool:
    """Returns whether a script file of this name exists or, if `is_module` is True, whether a
    module of this name exists. Also returns True for a module whose package cannot be imported
    because another module is missing."""
    if not name or not is_module:
        return os.path.isfile(name)
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError as error:
        # Another module that a package imports may be missing: then running it says so.
        return not f"{name}.".startswith(f"{error.name}.")
    except ImportError:  # of a relative name, such as ".train"
        return False


def warn_of_version() -> None:
    first, last = TRIED
    if not first <= pytorch_version() <= last:
        say(
            f"PyTorch {torch.__version__} was never tried; {first[0]}.{first[1]} to "
            f"{last[0]}.{last[1]} were"
        )


def main(argv: Sequence[str], finished: Callable[[str], None] = lambda out: None) -> NoReturn:
    """Runs the script that the arguments name, records the times of the training steps of one of
    the models that the script trains, and ends this process. When a script with several processes
    has been recorded, rank 0 calls `finished` with the name of the recording's file."""
    arguments = parser()
    flags = arguments.parse_args(argv)
    script = flags.script[1:] if flags.script[:1] == ["--"] else flags.script
    out = os.path.realpath(flags.out)  # the script may change the directory
    warn_of_version()
    name = script[0] if script else ""
    sys.path.insert(0, os.getcwd() if flags.m else os.path.dirname(os.path.abspath(name)))
    if not is_there(name, flags.m):
        arguments.error(f"no {'module' if flags.m else 'script'} {name}")
    if flags.rounds < 2:
        arguments.error(f"--rounds={flags.rounds}: expected at least 2")
    command = ["-m", *script] if flags.m else script
    try:
        check_usable(out, command=tuple(command))
    except UnusableFile as error:
        arguments.error(str(error))
    options = Options(
        out=out,
        command=command,
        rounds=flags.rounds,
        ddp=not flags.no_ddp,
        goes_on=flags.goes_on,
        number=flags.model,
    )
    Script(options, finished).run()


if __name__ == "__main__":
    main(sys.argv[1:])
