#!/usr/bin/env python3
"""tools/dev/prediction_errors.py DIRECTORY [--summary]: how far predictions of PyTorch's steps are off.

DIRECTORY has recordings MODEL.LINK.jsonl, or .gz: lstm.loopback.jsonl, and lstm.1gbit.jsonl of the same model. Prints the sizes
of all errors and, without --summary, what is measured in each file beside what is predicted of it."""
import contextlib
import gzip
import itertools
import math
import pathlib
import statistics
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "pytorch"))
from gradsync import prediction, sharding
from gradsync.answering import answer_of, measured_steps
from gradsync.text import text_of
from gradsync.what_if_command import parse, question_from


def question(*arguments):
    return question_from(parse([*map(str, arguments)]))


def rows_of(*arguments):
    return measured_steps(question(*arguments))


def sizes(text, errors):
    """A line about errors, which are parts."""
    sizes = sorted(100 * abs(error) for error in errors if error is not None)
    n = len(sizes)
    return [f"{text}: {n}, median {(sizes[(n - 1) // 2] + sizes[n // 2]) / 2:.1f} %, nine in ten within "
            f"{sizes[(9 * n + 9) // 10 - 1]:.1f} %, the largest {sizes[-1]:.1f} %."] if n else []


@contextlib.contextmanager
def launches_of(path):
    """Paths of files that hold one launch each."""
    with (gzip.open if path.suffix == ".gz" else open)(path, "rb") as file:
        lines = file.readlines()
    with tempfile.TemporaryDirectory() as directory:
        paths = [pathlib.Path(directory) / f"{number}.jsonl" for number in range(len(lines))]
        for one, line in zip(paths, lines):
            one.write_bytes(line)
        yield paths


def single_launches(path):
    """The rows of each of two launches by itself."""
    with launches_of(path) as launches:
        for one in launches if len(launches) == 2 else []:
            yield rows_of(one)


def rows_of_others(path):
    """What one launch predicts of each other one, at the computation there."""
    with launches_of(path) as launches:
        pairs = itertools.permutations(launches, 2)
        return [row for one, other in pairs for row in rows_of(one, f"--at={other}")]


def spread(errors):
    """The root mean square of logarithms of predicted costs, as parts of measured ones, by their errors."""
    logarithms = [math.log1p(error) for error in errors if error is not None and error > -1]
    return math.sqrt(statistics.fmean(one * one for one in logarithms)) if logarithms else 0


@contextlib.contextmanager
def without_model_error():
    """Intervals do not hold the model's own error."""
    errors = prediction.REPLICATED_ERROR, prediction.ROW_ERROR, sharding.SHARDED_ERROR
    prediction.REPLICATED_ERROR = prediction.ROW_ERROR = sharding.SHARDED_ERROR = 0
    try:
        yield
    finally:
        prediction.REPLICATED_ERROR, prediction.ROW_ERROR, sharding.SHARDED_ERROR = errors


def coverage(paths):
    """A line about steps of other launches, which intervals are to hold."""
    rows = [row for path in paths for row in rows_of_others(path)]
    if not rows:
        return []
    with without_model_error():
        before = [row for path in paths for row in rows_of_others(path)]
    percent, percent_before = (100 * sum(map(is_inside, one)) / len(one) for one in (rows, before))
    return [f"Of steps of other launches, at the computation there: {len(rows)}, inside of what is predicted: {percent:.0f} %; "
            f"without the model's own error in the intervals: {percent_before:.0f} %. The spread of the logarithms of their costs: "
            f"{spread(row.cost_error for row in rows):.2f}."]


def is_inside(row):
    """Whether what was measured lies within what is predicted."""
    return row.predicted_s.low <= row.measured_s.value <= row.predicted_s.high


def summary(paths, answers):
    """`paths`: by model and link."""
    rows = [row for one in answers for row in one.measured]
    pairs = sum(one.pairs for one in answers)
    right = sum(one.pairs_right for one in answers)
    both = [pair for path in paths.values() for pair in zip(*single_launches(path))]
    named, across = [], []
    for (model, link), path in paths.items():
        loopback, models = paths.get((model, "loopback")), [other for other, at in paths if at == link]
        if link != "loopback" and loopback:
            named += rows_of(loopback, f"--link={link.replace('gbit', 'Gbit')},100us", f"--at={path}")
            other = models[(models.index(model) + 1) % len(models)]
            across += rows_of(loopback, f"--link={paths[other, link]}", f"--at={path}") if other != model else []
    outside = sum(not is_inside(row) for row in named)
    signs = [row.cost_error > 0 for row in rows if row.cost_error is not None]
    inside = sum(map(is_inside, rows))
    return [*sizes("Errors of predictions", (row.error for row in rows)),
            *sizes("Of costs, which are steps less those without synchronisation", (row.cost_error for row in rows)),
            f"Of these {len(signs)} costs {sum(signs)} are predicted too long. Of {len(rows)} measured steps {inside} are inside of "
            "what is predicted.",
            *sizes("Of second runs", (row.second_run_error for row in rows)),
            f"Of {pairs} pairs of bucket sizes whose measured steps differ by more than their intervals, the faster one is "
            f"predicted: {right}.", "",
            *sizes("By one launch of two, of its own steps", (row.error for pair in both for row in pair)),
            *sizes("Of the other launch's steps", (a.predicted_s.value / b.measured_s.value - 1 for one, other in both
                                                   for a, b in ((one, other), (other, one)))),
            *coverage(paths.values()),
            *sizes("From loopback, over the link of another model's recording", (row.error for row in across)),
            *sizes("From loopback, of steps over a link whose rate and latency alone are given", (row.error for row in named)),
            *([f"Of these {len(named)} are outside of what is predicted: {outside}."] if named else [])]


def main(directory, *flags):
    paths = {tuple(path.name.split(".")[:2]): path for path in sorted(pathlib.Path(directory).glob("*.jsonl*"))}
    answers = [answer_of(question(path)) for path in paths.values()]
    lines = summary(paths, answers)
    if "--summary" not in flags:
        lines += ["", "```"]
        for path, one in zip(paths.values(), answers):
            _, title, rows = text_of(one).partition("\nDDP  ")
            lines += [path.name.partition(".jsonl")[0], *(f"  {line}" for line in (title + rows).splitlines()[1:])]
        lines.append("```")
    print("\n".join(lines))


if __name__ == "__main__":
    main(*sys.argv[1:])
