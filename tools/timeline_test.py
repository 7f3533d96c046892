#!/usr/bin/python3
"""tools/timeline.py: traces in, the waits and the exposed time of a step out."""

import json
import os
import pathlib
import shutil
import sys
import unittest

sys.dont_write_bytecode = True
import timeline
from sample_traces import trace

PLACE = "tiny, 2 ranks, batch 2, sequence 64"


class Traces(unittest.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(os.environ["TEST_TMPDIR"]) / self.id()
        shutil.rmtree(self.dir, ignore_errors=True)
        self.dir.mkdir(parents=True)

    def lines_of(self, *traces):
        for rank, one in enumerate(traces):
            (self.dir / f"ddp.1.rank{rank}.trace.json").write_text(json.dumps(one))
        return timeline.timelines(sorted(self.dir.iterdir()))

    def line_of(self, *traces):
        return self.lines_of(*traces)[PLACE][0]


class Reading(Traces):
    def test_the_step_of_median_length_with_all_that_it_has(self):
        ends = ((0, 50), (1, 41), (2, 44))
        lines = self.lines_of(*(trace(rank, ends, waits=[(21, 32)]) for rank in (0, 1)))
        self.assertEqual(list(lines), [PLACE])
        line = lines[PLACE][0]
        self.assertEqual((line.strategy, line.length), ("core", 44))
        self.assertEqual(list(line.ranks), [0, 1])
        rank = line.ranks[1]
        self.assertEqual(rank.flights, [timeline.Flight(0, 7.0, 10.0, 30.0, 2**20)])
        self.assertEqual(rank.phases["sync_exposed"], (21.0, 32.0))
        self.assertEqual(rank.waits, [timeline.Wait(21.0, 32.0, True)])
        self.assertEqual(rank.last_gradient, 21.0)

    def test_a_step_is_as_long_as_on_its_slowest_rank(self):
        self.assertEqual(self.line_of(trace(0), trace(1, ((0, 43),))).length, 43)

    def test_a_step_without_its_whole_is_none(self):
        cut = trace(0)
        cut["traceEvents"] = [one for one in cut["traceEvents"] if one["name"] != "core"]
        self.assertEqual(self.lines_of(cut), {})

    def test_a_place_for_each_setting_and_a_line_for_each_strategy(self):
        mixed = trace(0)
        for changed in ({"strategy": "flat"}, {"seq_len": 0}):
            more = [one | {"args": one["args"] | changed} for one in trace(0)["traceEvents"][1:]]
            mixed["traceEvents"] += more
        mixed["otherData"]["strategies"] = []
        lines = self.lines_of(mixed)
        self.assertEqual(list(lines), [PLACE, "tiny, 2 ranks, batch 2"])
        self.assertEqual([line.strategy for line in lines[PLACE]], ["core", "flat"])
        # In the order of the command line, not of the first round.
        mixed["otherData"]["strategies"] = ["flat", "core"]
        lines = self.lines_of(mixed)
        self.assertEqual([line.strategy for line in lines[PLACE]], ["flat", "core"])


class Exposed(Traces):
    def exposed(self, *waits_of_ranks, sync_end=32):
        traces = [
            trace(rank, sync_end=sync_end, waits=waits) for rank, waits in enumerate(waits_of_ranks)
        ]
        return timeline.exposed_in(self.line_of(*traces).ranks)

    def test_is_from_the_last_ranks_last_gradient_until_all_have_averaged(self):
        # Backward ends at 20 and 21.
        self.assertEqual(self.exposed([(20, 32)], [(21, 32)]), 32 - 21)

    def test_includes_waits_of_the_update(self):
        self.assertEqual(self.exposed([(33, 36)], [(33, 34), (35, 36)]), 32 - 21 + 3)
        # The last rank to have averaged need not be the last that computed.
        self.assertEqual(self.exposed([(33, 34)], [(33, 37)]), 32 - 21 + 4)

    def test_includes_waits_of_forward_and_backward(self):
        self.assertEqual(self.exposed([(1, 3), (6, 7)], [(1, 3), (6, 7)]), 32 - (21 - 3))
        # Rank 1 waited for rank 0, which computed without a wait until 20.
        self.assertEqual(self.exposed([(20, 32)], [(1, 3), (6, 7)]), 32 - 20)

    def test_does_not_count_waits_before_forward(self):
        self.assertEqual(self.exposed([(0, 2, False)], [(0, 2, False)]), 32 - 21)

    def test_is_not_known_without_waits(self):
        self.assertIsNone(self.exposed([], []))
        self.assertEqual(self.exposed([(20, 32)], []), 32 - 21)

    def test_a_wait_belongs_to_the_phase_that_it_is_in(self):
        rank = self.line_of(trace(0, waits=[(1, 2), (4, 5), (5, 8), (20, 32), (32, 33)])).ranks[0]
        counted = [rank.counted_in(phase) for phase in timeline.PHASES]
        self.assertEqual(counted, [2, 3, 12, 1])


class Waiting(Traces):
    def test_spans_are_united(self):
        waits = [(0, 1, False), (6, 8), (8, 9), (21, 25), (32, 33), (36, 37)]
        rank = self.line_of(trace(0, waits=waits)).ranks[0]
        self.assertEqual(rank.waiting(), [(0, 1), (6, 9), (20, 33), (36, 37)])

    def test_a_part_of_spans(self):
        spans = [(0, 1), (6, 9), (20, 33)]
        self.assertEqual(timeline.within(8, 30, spans), [(8, 9), (20, 30)])
        self.assertEqual(timeline.within(1, 6, spans), [])


class Titles(Traces):
    def title(self, *traces):
        return self.line_of(*traces).title

    def test_what_is_exposed(self):
        self.assertEqual(
            self.title(*(trace(rank, waits=[(21, 32), (33, 36)]) for rank in (0, 1))),
            "core, step 40 ms, exposed 14 ms, 1 MiB in 1 collectives",
        )

    def test_without_times_of_waits(self):
        self.assertEqual(
            self.title(trace(0)),
            "core, step 40 ms, optimizer includes its waits, 1 MiB in 1 collectives",
        )

    def test_without_communication(self):
        alone = trace(0)
        alone["traceEvents"] = [
            one for one in alone["traceEvents"] if one["tid"] < 3 and one["name"] != "sync_exposed"
        ]
        self.assertEqual(self.title(alone), "core, step 40 ms")


if __name__ == "__main__":
    unittest.main()
