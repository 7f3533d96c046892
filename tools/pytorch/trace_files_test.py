"""Files that `gradsync trace` reads, and what events are, by their names."""

import contextlib
import io
import json
import random
import unittest
from unittest import mock

from gradsync import Refused
from gradsync.trace import json_stream, spans
from gradsync.trace.events import is_communication, read_trace
from gradsync.trace.json_stream import Progress, read_events
from sample_traces import ALL_REDUCE, GEMM, DdpSteps, Sample, written


class SpansTest(unittest.TestCase):
    """Against sets of whole numbers."""

    def test_sets_are_what_sets_of_moments_are(self):
        numbers = random.Random(1)
        for _ in range(500):
            one, other = (
                [(b, b + numbers.randrange(6)) for b in numbers.choices(range(40), k=k)]
                for k in (numbers.randrange(8), numbers.randrange(8))
            )
            a, b = spans.union(one), spans.union(other)
            self.assertEqual(moments(a), {m for s in one for m in range(*s)})
            self.assertEqual(moments(spans.both(a, b)), moments(a) & moments(b))
            self.assertEqual(moments(spans.without(a, b)), moments(a) - moments(b))
            self.assertEqual(spans.length(a), len(moments(a)))
            begin = numbers.randrange(40)
            span = (begin, begin + numbers.randrange(1, 20))
            self.assertEqual(moments(spans.clipped(a, span)), moments(a) & set(range(*span)))
            for begin, end in zip(a, a[1:], strict=False):
                self.assertLess(begin[1], end[0])


def moments(own):
    return {moment for span in own for moment in range(*span)}


class FilesTest(unittest.TestCase):
    def assert_refused(self, path, *expected):
        with self.assertRaises(Refused) as caught:
            read_trace(path)
        text = str(caught.exception)
        self.assertNotIn("\n", text)
        for part in (path, *expected):
            self.assertIn(part, text)

    def events(self, path):
        facts = {}
        return list(read_events(path, facts)), facts

    def test_plain_and_compressed_files_are_read_whatever_their_names_are(self):
        sample = DdpSteps().sample
        paths = [
            sample.written(".json"),
            sample.written(".json.gz"),
            sample.written(".json", is_compressed=True),
            sample.written(".pt.trace.json.gz", is_compressed=False),
        ]
        for path in paths:
            events, facts = self.events(path)
            self.assertEqual(events, sample.events)
            self.assertEqual(facts, {**sample.facts, "traceEvents": True})

    def test_a_file_is_the_same_in_pieces_of_any_size(self):
        sample = DdpSteps(steps=1).sample
        sample.facts = {"number": 1234567890, "text": 'a "quoted" \\ text, Zürich 東京', "n": 2}
        sample.events.append({"ph": "M", "name": "東京 😀"})
        text = json.dumps({**sample.facts, "traceEvents": sample.events, "last": 98765}, indent=1)
        spelled = json.dumps(
            {**sample.facts, "traceEvents": [{"ph": "M", "name": "東京"}]}, ensure_ascii=False
        )
        for size in (1, 2, 3, 7, 64, 1000):
            with mock.patch.object(json_stream, "CHUNK_BYTES", size):
                events, facts = self.events(written(text))
                self.assertEqual(events, sample.events)
                self.assertEqual(facts["number"], 1234567890)
                self.assertEqual(facts["last"], 98765)
                self.assertEqual(self.events(written(spelled))[0][0]["name"], "東京")

    def test_a_list_of_events_is_a_trace(self):
        sample = DdpSteps().sample
        self.assertEqual(self.events(written(json.dumps(sample.events)))[0], sample.events)

    def test_names_may_hold_characters_that_json_forbids(self):
        """Old traces have tabs and newlines of kernels' and users' names as they are."""
        text = json.dumps(Sample().kernel(0, 5, 0, name="aKb").events).replace("aKb", "a\t\nb")
        self.assertEqual(read_trace(written(text)).device[0].name, "a\t\nb")

    def test_broken_json_is_refused_with_its_place(self):
        good = json.dumps({"traceEvents": Sample().step(1, 0, 5).step(2, 5, 5).events}, indent=1)
        lines = good.split("\n")
        at = next(i for i, line in enumerate(lines) if "ProfilerStep#2" in line)
        broken = [*lines[:at], '   "name": Zwei,', *lines[at + 1 :]]
        for size in (5, 1 << 22):
            with mock.patch.object(json_stream, "CHUNK_BYTES", size):
                place = f"broken JSON in line {at + 1}, character 12, after 2 events"
                self.assert_refused(written("\n".join(broken)), place)
        self.assert_refused(written(good[:-2]), "it ends too early")
        self.assert_refused(written(good[: good.index("Step#2")]), "Unterminated string")
        self.assert_refused(written(good + "x"), "expected nothing more")
        self.assert_refused(written('{"traceEvents": [{}  {}]}'), "line 1", "expected ,")
        self.assert_refused(written('{"a": 1 "b": 2}'), "expected ,")
        self.assert_refused(written('{"traceEvents": ' + "[" * 100_000), "broken JSON")

    def test_the_place_in_a_long_line_is_told(self):
        text = '{"traceEvents": [' + 9 * '{"ph": "M"}, ' + "{]}"
        for size in (5, 1 << 22):
            with mock.patch.object(json_stream, "CHUNK_BYTES", size):
                place = f"line 1, character {text.index(']') + 1}, after 9 events"
                self.assert_refused(written(text), place)

    def test_a_broken_event_is_refused_without_reading_all_that_follows(self):
        good = json.dumps(DdpSteps(steps=50).sample.events)
        path = written('[{"name": Zwei}, ' + good[1:], ".json.gz")
        with open(path, "rb") as file:
            data = file.read()
        with open(path, "wb") as file:
            file.write(data[:-20])  # its end cannot be read
        with (
            mock.patch.object(json_stream, "CHUNK_BYTES", 64),
            mock.patch.object(json_stream, "LONGEST_VALUE", 1000),
        ):
            self.assert_refused(path, "broken JSON in line 1, character 11, after 0 events")

    def test_breaking_a_trace_anywhere_is_refused_or_reads(self):
        text = json.dumps({"traceEvents": Sample().step(1, 0, 5).kernel(0, 3, 0).events})
        numbers = random.Random(2)
        for _ in range(300):
            at = numbers.randrange(len(text))
            mutant = (
                text[:at] + numbers.choice(['"', "{", "]", "", "7", "\\", "nul"]) + text[at + 1 :]
            )
            with contextlib.suppress(Refused):
                read_trace(written(mutant))

    def test_a_compressed_file_that_is_cut_off_is_refused(self):
        path = DdpSteps().sample.written(".json.gz")
        with open(path, "rb") as file:
            data = file.read()
        with open(path, "wb") as file:
            file.write(data[:-20])
        self.assert_refused(path, "cannot be read")

    def test_other_files_are_refused_by_name(self):
        self.assert_refused(written("", ".pftrace"), "a trace of Perfetto")
        self.assert_refused(written("", ".pftrace.gz"), "a trace of Perfetto")
        self.assert_refused(written("no JSON"), "no JSON")
        self.assert_refused(written(""), "no JSON")
        self.assert_refused(written('{"events": []}'), "no traceEvents")
        self.assert_refused(written('{"traceEvents": []}'), "nothing was profiled")
        self.assert_refused("/nowhere/rank0.json", "No such file")

    def test_events_of_other_phases_may_lack_times(self):
        sample = Sample().kernel(0, 5, 0)
        sample.events += [{"ph": "i", "cat": "cpu_op", "name": "mark", "s": "g"}]
        self.assertEqual(len(read_trace(sample.written()).device), 1)

    def test_times_that_are_no_numbers_are_refused(self):
        for wrong in ("7", None, True, float("nan"), 1e30):
            sample = Sample().kernel(0, 5, 0)
            sample.events[-1]["ts"] = wrong
            self.assert_refused(sample.written(), "ts is", "expected microseconds")

    def test_progress_is_shown_on_a_terminal_alone(self):
        for is_terminal in (True, False):
            out = io.StringIO()
            out.isatty = lambda is_terminal=is_terminal: is_terminal
            progress = Progress("rank0.json", 200, out)
            for position in (0, 1, 100, 101, 200):
                progress.at(position)
            progress.end()
            text = out.getvalue()
            expected = ["", "reading rank0.json: 0 %", "reading rank0.json: 50 %"]
            expected += ["reading rank0.json: 100 %", "\033[K"]
            self.assertEqual(text.split("\r"), expected if is_terminal else [""])


class NamesTest(unittest.TestCase):
    def test_kernels_that_communicate_are_known_by_their_names(self):
        for name in (
            "ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)",
            ALL_REDUCE,
            "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclDevComm*, unsigned long, ncclWork*)",
            "rccl_main_kernel",
            "void mscclpp::allreduce<float>(int)",
            "void dpsk::ep::internode::dispatch<false, 8>(int4*, float*)",
            "void deep_ep::intranode::combine<float>(int)",
            "void vllm::cross_device_reduce_1stage<float, 2>(vllm::RankData*)",
            "two_shot_all_reduce_kernel",
        ):
            self.assertTrue(is_communication(name), name)

    def test_kernels_that_compute_with_such_words_in_their_types_are_none(self):
        for name in (
            GEMM,
            "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float>>(int)",
            "void my::kernel<ncclDevComm>(ncclDevComm*)",
            "Memset (Device)",
        ):
            self.assertFalse(is_communication(name), name)


if __name__ == "__main__":
    unittest.main()
