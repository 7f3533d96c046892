"""python -m gradsync record|what_if|check ..."""

import sys

from gradsync import BAD_ARGUMENTS, LACKING

USAGE = """\
python -m gradsync record [--out=FILE] [--continue] [--rounds=N] train.py ARGS...
torchrun --nproc_per_node=2 -m gradsync record [--no-ddp] ... train.py ARGS...
    runs a script, as it is, until enough of its steps are recorded: one for one process, or one that uses
    DistributedDataParallel, for which it prints the answer. FILE (gradsync.jsonl) gets a line for each launch: launch it three
    times. `record --help` says what it does not record.
gradsync what_if FILE [--help]
    asks on: other links, other numbers of ranks.
python -m gradsync check train.py ARGS, or by torchrun as above
    compares what optimizers are handed with the mean of all ranks' gradients: 0 the same, 1 a difference, 2 cannot be checked,
    5 check itself has failed.
"""


def end(text, status):
    print(text, file=sys.stderr)
    sys.exit(status)


def main():
    command, arguments = (sys.argv[1:2] or [""])[0], sys.argv[2:]
    if command in ("-h", "--help"):
        sys.exit(print(USAGE))
    if command not in ("record", "what_if", "check"):
        end(
            f"gradsync: no command {command}: expected record, what_if or check (--help)"
            if command
            else USAGE,
            BAD_ARGUMENTS,
        )
    from gradsync import answer

    if command == "what_if":
        sys.exit(answer.main(arguments))
    try:
        from gradsync import check, record  # PyTorch takes seconds to import
    except ModuleNotFoundError as error:  # 2 of `check` says that it cannot check
        end(
            f"{command}: no module {error.name}: it needs PyTorch 2.1 or newer",
            2 if command == "check" else LACKING,
        )
    if command == "check":
        sys.exit(check.main(arguments))
    record.main(arguments, finished=lambda out: answer.main([out]))


if __name__ == "__main__":
    main()
