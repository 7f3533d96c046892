"""The command `gradsync what_if`: its flags, what it prints, and its exit statuses."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

from gradsync import BAD_ARGUMENTS, FAILED, Refused
from gradsync.answer import as_json
from gradsync.answering import answer_of
from gradsync.memory import parse_bytes
from gradsync.network import Algorithm, parse_wire
from gradsync.question import MOST_PERCENT, LinkOptions, Question, question_of
from gradsync.schema import MOST_RANKS
from gradsync.text import text_of

DESCRIPTION = (
    "What a step of DistributedDataParallel would take with other buckets, links and numbers of "
    "ranks."
)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Ends the process in one line."""
        self.exit(BAD_ARGUMENTS, f"what_if: {message}\n")


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Reads the flags, or prints what is wrong with them and ends the process."""
    parser = _Parser(prog="what_if", allow_abbrev=False, description=DESCRIPTION)
    _add_recording_flags(parser)
    _add_link_flags(parser)
    return parser.parse_args(arguments)


def _add_recording_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("recording", help="Reads this file, which gradsync record wrote.")
    parser.add_argument(
        "--at",
        help="Reads a recording of the model where the answer is to hold. Computation is scaled to "
        "its step without synchronisation; what else it measured is only compared.",
    )
    parser.add_argument(
        "--memory",
        type=_memory,
        help="Shows which ways fit, and how large a batch, if a rank has this memory for tensors, "
        "such as 80GB.",
    )
    parser.add_argument(
        "--format",
        choices=("screen", "json"),
        default="screen",
        help="Prints in this format. Default: screen.",
    )


def _add_link_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--world_size",
        type=_whole(0, MOST_RANKS),
        default=0,
        help="Predicts for this number of ranks, 2 or more. 0: as recorded.",
    )
    parser.add_argument(
        "--link",
        help="Sets the link between hosts: a rate and a latency such as 25Gbit,5us; a rate alone "
        "has 5us. Or a file: another recording, what nccl-tests or osu_allreduce printed, what "
        "nccl-tests wrote with -J, or records of //bench:all_reduce. Default: as recorded.",
    )
    parser.add_argument(
        "--ranks_per_host",
        type=_whole(1, MOST_RANKS),
        default=LinkOptions.ranks_per_host,
        help="Lets this number of ranks share a host's link. Default: 1.",
    )
    parser.add_argument(
        "--within",
        type=_wire,
        default=LinkOptions.within,
        help="Sets the link between the ranks of one host. PCIe 4 moves about 200Gbit, NVLink of "
        f"an H100 3600Gbit. Default: {LinkOptions.within}.",
    )
    parser.add_argument(
        "--algorithm",
        choices=[algorithm.value for algorithm in Algorithm],
        default=LinkOptions.algorithm,
        help="Exchanges data in collectives with this algorithm. Default: as the recorded backend "
        "does, which is a ring over gloo, and else the best.",
    )
    parser.add_argument(
        "--processor_percent",
        type=_whole(0, MOST_PERCENT),
        help="Sets how much of a rank's processors communication uses. Default: as measured, or "
        "assumed.",
    )


def _whole(least: int, most: int) -> Callable[[str], int]:
    def convert(text: str) -> int:
        if not text.isdecimal() or not least <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"{text}: expected {least} to {most}")
        return int(text)

    return convert


def _wire(text: str) -> str:
    if not parse_wire(text):
        raise argparse.ArgumentTypeError(
            f"{text}: expected a rate and a latency such as 25Gbit,5us"
        )
    return text


def _memory(text: str) -> float:
    size = parse_bytes(text)
    if not size:
        raise argparse.ArgumentTypeError(f"{text}: expected bytes such as 80GB")
    return size


def question_from(flags: argparse.Namespace) -> Question:
    """Reads the files that flags name. Raises Refused if one of them cannot be used."""
    options = LinkOptions(
        link=flags.link,
        ranks_per_host=flags.ranks_per_host,
        within=flags.within,
        algorithm=flags.algorithm,
    )
    return question_of(
        flags.recording,
        options,
        world_size=flags.world_size or None,
        at=flags.at,
        processor_percent=flags.processor_percent,
        memory_limit_bytes=flags.memory,
    )


def _output(flags: argparse.Namespace) -> str:
    answer = answer_of(question_from(flags))
    return json.dumps(as_json(answer)) if flags.format == "json" else text_of(answer)


def main(arguments: Sequence[str]) -> int:
    """Answers what the arguments ask, and returns the exit status."""
    flags = parse(arguments)
    try:
        output = _output(flags)
    except Refused as error:
        print(f"what_if: {error}", file=sys.stderr)
        return BAD_ARGUMENTS
    try:
        print(output, flush=True)
    except OSError as error:  # a full disk, or a reader who has left
        # Python would try again to write to it at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        print(f"what_if: cannot write to stdout: {error.strerror}", file=sys.stderr)
        return FAILED
    return 0
