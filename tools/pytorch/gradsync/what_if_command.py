"""Defines the command `gradsync what_if`: its flags, output and exit statuses."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

from gradsync import BAD_ARGUMENTS, LACKING, Refused
from gradsync.answer import as_json
from gradsync.answering import NO_MEASURED, NO_MEMORY, answer_of
from gradsync.curve import Curve, curve_of, named_questions
from gradsync.curve_text import curve_text
from gradsync.memory import parse_bytes
from gradsync.network import Algorithm, parse_wire
from gradsync.plot import ONE_NUMBER, NoMatplotlib, check_can_draw, save
from gradsync.question import MOST_PERCENT, LinkOptions, Question, question_of
from gradsync.schema import MOST_RANKS
from gradsync.standard_output import print_answer
from gradsync.text import text_of

DESCRIPTION = (
    "What a step of DistributedDataParallel would take with other buckets, links and numbers of "
    "ranks."
)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Prints one line of error to stderr, and ends the process with the status BAD_ARGUMENTS.
        argparse calls this method if flags are wrong."""
        self.exit(BAD_ARGUMENTS, f"what_if: {message}\n")


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Parses the command line, and returns its flags. If flags are wrong, prints why and ends the
    process."""
    parser = _Parser(prog="what_if", allow_abbrev=False, description=DESCRIPTION)
    _add_recording_flags(parser)
    _add_link_flags(parser)
    _add_curve_flags(parser)
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


def _add_curve_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--plot",
        help="Draws the lines of several numbers of ranks into this file, .svg or .png. Needs "
        "matplotlib: pip install 'gradsync[plot]'.",
    )
    parser.add_argument(
        "--measured",
        action="append",
        metavar="FILE[,FILE...]",
        help="Puts steps that the script itself took in these recordings, of other numbers of "
        "ranks, beside several predictions.",
    )


def _add_link_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--world_size",
        type=_world_sizes,
        default=[0],
        metavar="N[,N...]",
        help="Predicts for this number of ranks, 2 or more. 0: as recorded. Several numbers, such "
        "as 2,4,8,16: prints a line for each, without other tables.",
    )
    parser.add_argument(
        "--link",
        action="append",
        help="Sets the link between hosts: a rate and a latency such as 25Gbit,5us; a rate alone "
        "has 5us. Or a file: another recording, what nccl-tests or osu_allreduce printed, what "
        "nccl-tests wrote with -J, or records of //bench:all_reduce. Default: as recorded. Several "
        "links: repeat the flag, as in --link=10Gbit,20us --link=25Gbit,5us, which prints a line "
        "for each link and number of ranks.",
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


def _world_sizes(text: str) -> list[int]:
    if "," not in text:
        return [_whole(0, MOST_RANKS)(text)]
    return [_whole(2, MOST_RANKS)(one) for one in text.split(",")]


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


def _links_of(flags: argparse.Namespace) -> list[LinkOptions]:
    """Returns the links to predict for: those of --link, else the recorded link. Raises Refused if
    a --link is empty, as an unset variable makes it."""
    if "" in (flags.link or []):
        raise Refused("--link=: expected a rate and a latency, or a file")
    return [
        LinkOptions(
            link=link,
            ranks_per_host=flags.ranks_per_host,
            within=flags.within,
            algorithm=flags.algorithm,
        )
        for link in flags.link or [None]
    ]


def question_from(flags: argparse.Namespace) -> Question:
    """Makes the question that `what_if` answers, from flags that name at most one link and one
    number of ranks. Reads the recording and, if given, the files of --at and --link. Raises Refused
    if a file cannot be used, or if flags contradict a file or each other."""
    (options,) = _links_of(flags)
    (world_size,) = flags.world_size
    return question_of(
        flags.recording,
        options,
        world_size=world_size or None,
        at=flags.at,
        processor_percent=flags.processor_percent,
        memory_limit_bytes=flags.memory,
    )


def _curve_from(flags: argparse.Namespace) -> Curve:
    if flags.memory:
        raise Refused(NO_MEMORY)
    if flags.plot:
        check_can_draw(flags.plot)
    questions = named_questions(
        flags.recording,
        _links_of(flags),
        [world_size or None for world_size in flags.world_size],
        flags.at,
        flags.processor_percent,
    )
    measured = [path for paths in flags.measured or [] for path in paths.split(",")]
    return curve_of(questions, measured)


def _output(flags: argparse.Namespace) -> str:
    is_json = flags.format == "json"
    if len(flags.world_size) > 1 or len(flags.link or []) > 1:
        curve = _curve_from(flags)
        if flags.plot:
            save(curve, flags.plot)
        return json.dumps(as_json(curve)) if is_json else curve_text(curve)
    if flags.plot:
        raise Refused(ONE_NUMBER)
    if flags.measured:
        raise Refused(NO_MEASURED)
    answer = answer_of(question_from(flags))
    return json.dumps(as_json(answer)) if is_json else text_of(answer)


def main(arguments: Sequence[str]) -> int:
    """Runs `gradsync what_if`: prints what the flags ask for, and returns the exit status. Prints
    an error as one line to stderr."""
    flags = parse(arguments)
    try:
        output = _output(flags)
    except Refused as error:
        print(f"what_if: {error}", file=sys.stderr)
        return BAD_ARGUMENTS
    except NoMatplotlib as error:
        print(f"what_if: {error}", file=sys.stderr)
        return LACKING
    return print_answer("what_if", output)
