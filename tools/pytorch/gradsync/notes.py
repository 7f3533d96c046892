"""Writes the notes in an answer of `what_if`: sentences about what the user has asked for, and
about what the prediction assumes."""

from __future__ import annotations

from gradsync import published_costs
from gradsync.answer import BUCKET_CAPS_MB
from gradsync.network import ASSUMED_ERROR, Algorithm, algorithm_of
from gradsync.question import FileLink, NamedLink, Question, RecordedLink
from gradsync.recording import Recording
from gradsync.units_text import bytes_text, gbit_text, ranks_text, sizes_text


def notes_of(question: Question) -> list[str]:
    """Returns the notes of an answer to this question, one sentence per string. If --link is a rate
    or --world_size is given, the first sentence states the number of ranks and any rate. The other
    sentences, from assumptions_of(), say what the prediction assumes, and why it may err."""
    link = question.link
    asked = []
    if isinstance(link, NamedLink):
        network = link.network
        asked.append(
            f"Asked for {ranks_text(question.world_size)} ({network.ranks_per_host} on a host), "
            f"{gbit_text(network.between.bytes_per_second)} and "
            f"{1e6 * network.between.latency_s:.4g} us between hosts."
        )
    elif question.asked_world_size:
        asked.append(f"Asked for {ranks_text(question.world_size)}.")
    return asked + assumptions_of(question)


def assumptions_of(question: Question) -> list[str]:
    """Returns sentences about what the prediction assumes, and why it may err, one per string."""
    is_gpu = question.launch.device != "cpu"
    notes = _own_collectives_notes(question.recording)
    notes += [published_costs.note()] if is_gpu else []
    link = question.link
    if isinstance(link, NamedLink):
        notes.append(_named_link_note(link))
        has_hybrid = question.launch.sharing_ranks > 0 or link.network.ranks_per_host > 1
        notes.append(_algorithm_note(link.network.algorithm, question.launch.backend, has_hybrid))
    if isinstance(link, FileLink):
        notes += _file_link_notes(question, link)
    measured_ranks = question.measured_ranks
    if measured_ranks is not None and measured_ranks != question.world_size:
        notes.append("Assumed: collectives go around a ring.")
    if question.processor_share is None and (is_gpu or not _are_processors_known(question)):
        where = " on the GPU" if is_gpu else ""
        notes.append(f"Assumed: communication takes nothing from computation{where}.")
    return notes


def _own_collectives_notes(recording: Recording) -> list[str]:
    count, size = recording.own_collectives
    if not count:
        return []
    is_one = count == 1
    return [
        f"In each step {count:.3g} collective{'' if is_one else 's'} of the script itself, "
        f"{bytes_text(size)}, count{'s' if is_one else ''} as computation: a link does not change "
        f"{'it' if is_one else 'them'}."
    ]


def _named_link_note(link: NamedLink) -> str:
    network = link.network
    shares = network.ranks_per_host > 1
    within = ""
    if shares:
        rate = gbit_text(network.within.bytes_per_second)
        within = f"; ranks of a host exchange {rate} (--within)"
    return f"Assumed: the link is within {100 * ASSUMED_ERROR:g} % of its data sheet{within}."


def _algorithm_note(algorithm: str, backend: str, has_hybrid: bool) -> str:
    """`has_hybrid`: whether a step with HSDP is predicted, which is always predicted with rings."""
    if backend == "gloo" and algorithm == algorithm_of(backend):
        return (
            "Assumed: all-reduces and all-gathers go around a ring and broadcasts through a tree, "
            "as gloo does it."
        )
    taken = f"the algorithm {Algorithm(algorithm).value}"
    if algorithm == Algorithm.BEST:
        taken = "the fastest of a ring, a tree and rings of hosts"
    hybrid = ", those of HSDP a ring" if has_hybrid and algorithm != Algorithm.RING else ""
    return f"Assumed: collectives take {taken}{hybrid}."


def _file_link_notes(question: Question, link: FileLink) -> list[str]:
    measured = link.measured.costs.sizes()
    row = question.script_row
    rows = [row, row.with_bucket_cap(BUCKET_CAPS_MB[0]), row.with_bucket_cap(BUCKET_CAPS_MB[-1])]
    sent = [size for row in rows for size in question.recording.bucket_bytes(row)]
    ranks = ranks_text(link.measured.world_size)
    notes = [f"The link: {link.path}, measured by {ranks}, {sizes_text(measured)}."]
    notes += [f"Beware of it: {line}." for line in link.measured.says]
    if min(sent) < min(measured) or max(sent) > max(measured):
        sizes = sizes_text(sent)
        notes.append(f"Beware of it: not all sizes of buckets, {sizes}, were measured.")
    return notes


def _are_processors_known(question: Question) -> bool:
    """Returns whether the CPU time of collectives was measured: in the file that --link names or,
    without a file, in the recording. A recording of one rank has no such measurement."""
    link = question.link
    if isinstance(link, FileLink):
        return link.measured.costs.uses_processors()
    recorded = link.recording if isinstance(link, RecordedLink) else question.recording
    return recorded.first.backend != "none"
