"""What a step should take, of launches whose numbers can be computed by hand."""

import math
import unittest

from gradsync import Refused
from gradsync.prediction import largest_zero1_part
from gradsync.processors import Processors
from gradsync.question import RING_ERROR
from gradsync.replay import REPLICATED_ERROR, ROW_ERROR
from sample_recordings import (
    MIB,
    MS,
    alone,
    ask,
    changed,
    launch,
    predict,
    question,
    sent_by,
    steps_of,
    written,
)

A_SCRIPTS_OWN = {"first_bucket_bytes": MIB, "bucket_bytes": 25 * MIB}


def wire(seconds_of_all, latency="0.000001us"):
    """A --link over which the 4 MiB of all parameters take so long."""
    return f"{8e-9 * 4 * MIB / seconds_of_all:.12f}Gbit,{latency}"


def computing(part):
    """A launch whose computation takes this part of a processor."""
    one = launch()
    for step in steps_of(one, "none"):
        step["cpu_ns"] = part * step["step_ns"]
    return one


class PredictionTest(unittest.TestCase):
    def assert_step(self, expected_ms, *launches, delta=1e-6, **more):
        self.assertAlmostEqual(
            1e3 * predict(*launches, **more).step_s.value, expected_ms, delta=delta
        )

    def test_an_all_reduce_follows_backward(self):
        one = predict()
        self.assertAlmostEqual(one.step_s.value, (20 + 40 + 40 + 1 + 6) * 1e-3)
        self.assertAlmostEqual(one.exposed_s, 40e-3)
        self.assertAlmostEqual(one.floor_s, 20e-3 + 10e-3 + 40e-3)

    def test_an_interval_holds_links_and_this_models_own_error(self):
        # 40 ms of collectives, which another launch's memory changes by 3 %.
        one = predict(computing(1e-9)).step_s
        for end, sign in ((one.low, -1), (one.high, 1)):
            self.assertAlmostEqual(end, one.value + sign * 40e-3 * 1.96 * 0.03, delta=0.3e-3)
        # The model's own error counts as far as computation and communication take a processor.
        for part, used in ((0.5, 1), (1, 0.5), (1, 0.25)):
            shared = computing(part)
            for sent in sent_by(shared):
                sent["cpu_ns"] = used * sent["wall_ns"]
            one = predict(shared).step_s
            own = part * used * math.hypot(REPLICATED_ERROR, ROW_ERROR)
            far = math.exp(1.96 * math.hypot(own, 0.03))
            self.assertAlmostEqual(one.low, 63e-3 + 44e-3 / far, delta=1.5e-3)
            self.assertAlmostEqual(one.high, 63e-3 + 44e-3 * far, delta=4e-3)  # of 1000 draws
        # Between four ranks three hops of half the bytes, which nobody has measured, take 60 ms.
        four = predict(computing(1e-9), flags={"world_size": 4}).step_s
        for end, sign in ((four.low, -1), (four.high, 1)):
            far = math.exp(sign * 1.96 * RING_ERROR)
            self.assertAlmostEqual(end, four.value + 60e-3 * (far - 1), delta=1e-3)
        gpu = predict({**computing(0.5), "device": "NVIDIA H200"}).step_s
        self.assertGreater(gpu.high, 63e-3 + 44e-3 * math.exp(1.8 * REPLICATED_ERROR))

    def test_processors_are_those_that_computation_was_measured_to_take(self):
        def of(one, **changes):
            recording = question([{**one, **changes}]).recording
            return Processors.of(recording.first)

        # Two ranks of a host share its two processors.
        self.assertEqual(of(launch()), Processors(1, 1))
        self.assertEqual(of(launch(), threads=4), Processors(4, 4))
        self.assertEqual(of(computing(0.25)), Processors(1, 0.25))
        self.assertEqual(of(computing(0.25), threads=4), Processors(1, 0.25))
        self.assertEqual(of(computing(0.25), hosts=["a", "b"]), Processors(2, 0.25))
        self.assertEqual(of(computing(3)), Processors(3, 3))

    def test_computation_without_a_processor_is_not_slowed_down(self):
        # The first bucket's 10 ms take all of a processor, within 30 ms of backward.
        def step(part, expected):
            one = computing(part)
            for sent in sent_by(one):
                sent["cpu_ns"] = sent["wall_ns"]
            self.assert_step(expected, one, **A_SCRIPTS_OWN)

        step(1e-9, 20 + 70 + 7)
        step(1, 20 + 10 + 20 + 20 + 30 + 7)

    def test_buckets_overlap_backward_and_each_other(self):
        # The first goes from 10 to 20 ms, the second from 40 to 70.
        self.assert_step(20 + 70 + 7, **A_SCRIPTS_OWN)
        # All three at once: the first is done before the others are ready; these go as two, of 10
        # and 20 ms of their own: both at 10 / 8 of half the pace until one is done after 16, then 4
        # / 5 of the other's rest at its own pace.
        late = launch()
        for step in steps_of(late, "probe"):
            step["ready_ns"] = [40 * MS, 40 * MS, 10 * MS]
        self.assert_step(
            20 + 40 + 16 + 10 + 7, late, bucket_bytes=1, first_bucket_bytes=1, delta=0.1
        )
        late["backend"] = "nccl"  # sends one after the other
        self.assert_step(20 + 40 + 30 + 7, late, bucket_bytes=1, first_bucket_bytes=1)

    def test_communication_takes_the_processor(self):
        def step(expected_ms, **fields):
            busy = changed(**fields)
            for sent in sent_by(busy):
                sent["cpu_ns"] = sent["wall_ns"]
            self.assert_step(expected_ms, busy, **A_SCRIPTS_OWN)

        step(20 + 50 + 30 + 7)  # while 10 ms of communication run, computation takes as long again
        step(97, cores=4)  # each rank has a core to spare
        step(97, hosts=["a", "b"])  # a host has as many for one rank as for two
        # More threads than cores have been as slow where they were recorded: three things want two
        # cores.
        step(20 + 45 + 30 + 7, threads=2)
        step(97, device="NVIDIA H100")  # the host's processors are not the GPU's

    def test_the_rank_that_came_last_tells_what_collectives_take(self):
        late = launch()
        for step in late["ranks"][0]:
            sent = step.get("collectives", {})
            sent.update(
                wall_ns=sent.get("wall_ns", 0) + 5 * MS,
                ns=[ns + 5 * MS for ns in sent.get("ns", [])],
            )
        for step in late["ranks"][0]:
            if not step.get("collectives", {}).get("kind"):
                step.pop("collectives", None)
        self.assert_step(97, late, **A_SCRIPTS_OWN)

    def test_rare_long_collectives_are_not_lost(self):
        rare = launch()
        for sent in sent_by(rare):
            if len(sent["ns"]) == 4:
                sent["ns"][2] += 40 * MS
        # A MiB takes (3 * 10 + 50) / 4 ms, 4 MiB 40, and 3 MiB lie between: the first goes from 10
        # to 30 ms.
        self.assert_step(20 + 40 + 20 + 20 * 2 / 3 + 7, rare, **A_SCRIPTS_OWN)

    def test_copies_back_follow_communication(self):
        copied = launch()
        for step in steps_of(copied, "probe"):
            step["copy_back_ns"] = 3 * MS
        self.assert_step(110, copied)

    def test_bf16_sends_half_and_casts(self):
        self.assert_step(
            20 + 40 + 4 + 4 * 13 + 7, bf16=True
        )  # 4 ms to cast before, 12 + 1 ms a MiB

    def test_bf16_over_a_link_sends_two_bytes_of_each_element_and_casts_back(self):
        flags = {"link": wire(0.1)}
        # Half the bytes, 4 ms to cast and 4 to cast back; the first of two buckets is cast back
        # beside the other.
        self.assert_step(67 + 4 + 50 + 4, flags=flags, bf16=True, delta=1e-3)
        self.assert_step(
            67 + 4 + 37.5 + 3, flags=flags, bf16=True, first_bucket_bytes=MIB, delta=1e-3
        )
        # A model in bf16 is not cast and sends what it has sent, one in f64 a quarter.
        for elements_of_byte, sent_ms in ((0.5, 100), (0.125, 25)):
            other = launch()
            for parameter in other["parameters"]:
                parameter["numel"] = int(elements_of_byte * parameter["bytes"])
            for sent in sent_by(other, "bf16"):
                sent["in_ns"] = sent["out_ns"] = [0] * 4
            self.assert_step(67 + sent_ms, other, flags=flags, bf16=True, delta=1e-3)
            # Where it was recorded a MiB takes 12 ms, whatever its bytes were before.
            self.assert_step(67 + 4 * 12, other, bf16=True)

    def test_bf16_gains_as_much_by_being_two_at_once(self):
        late = launch()
        for step in steps_of(late, "probe"):
            step["ready_ns"] = [40 * MS, 40 * MS, 10 * MS]
        # Two of 13 ms take 2 * 13 / 1.25, and then 13 are left of the larger one.
        self.assert_step(
            20 + 44 + 20.8 + 13 + 7,
            late,
            bf16=True,
            bucket_bytes=1,
            first_bucket_bytes=1,
            delta=0.1,
        )

    def test_zero1_updates_parts_and_broadcasts_them(self):
        self.assert_step(20 + 40 + 40 + 1 + 3 + 30, zero1=True)
        self.assert_step(20 + 40 + 80 + 1 + 3 + 60, zero1=True, pace=2)
        for numels, ranks, share in (
            ((1, 2, 3, 4), 2, 0.5),
            ((6, 1, 1), 2, 0.75),
            ((3, 3, 2, 2, 2), 2, 7 / 12),
            ((1, 2), 1, 1),
            ((1, 1), 4, 0.5),
        ):
            self.assertAlmostEqual(largest_zero1_part(numels, ranks), share)

    def test_more_passes_add_what_does_not_synchronise_and_their_additions(self):
        # Two passes of 19 + 38 ms; to add 4 MiB to gradients takes as long as two casts.
        more = launch()
        for sent in sent_by(more, "bf16"):
            sent["out_ns"] = [1, 1, 1, 8 * MS - 3]
        self.assert_step(2 * 57 + 20 + 40 + 4 + 8 + 40 + 7, more, passes=3)
        for step in steps_of(more, "probe"):  # without casts as long as a probe's copy: 40 - 38
            if step["collectives"]["kind"] == "bf16":
                del step["collectives"]
        self.assert_step(2 * 57 + 20 + 42 + 40 + 7, more, passes=3)
        for step in steps_of(more, "probe"):  # and nothing, if probes are faster
            step.update(backward_ns=37 * MS, ready_ns=[37 * MS, 30 * MS, 10 * MS])
        self.assert_step(2 * 57 + 20 + 37 + 40 + 7, more, passes=3)
        # A script that accumulates has its additions in its own steps.
        self.assert_step(107, changed(passes=3), passes=3)
        self.assert_step(57 + 107, changed(passes=3), passes=6)
        # In each round one of the ranks takes 10 ms longer; in two passes both do.
        uneven = launch()
        for r, steps in enumerate(uneven["ranks"]):
            for i, step in enumerate(step for step in steps if step["mode"] == "none"):
                step["before_ns"] += 10 * MS * (i % 2 == r)
        self.assert_step(67 + 20 + 40 + 8 + 40 + 7, uneven, passes=2)
        self.assert_step(2 * 57 + 10 + 20 + 40 + 8 + 40 + 7, uneven, passes=3)

    def test_what_is_left_behind_pieces_of_one_size_is_not_of_their_size(self):
        rest = launch()
        for sent in sent_by(rest, "all_reduce"):
            if sent["in_flight"]:
                sent["bytes"] += [100, 100]
                sent["ns"] += [1000 * MS, 1000 * MS]
        self.assert_step(107, rest)

    def test_nothing_of_ddps_own_steps_enters(self):
        other = launch()
        for step in steps_of(other, "ddp"):
            step.update(
                before_ns=7, backward_ns=7, rest_ns=7, optimizer_ns=7, step_ns=7, ready_ns=[1, 2, 3]
            )
        other["rows"][0]["rebuilt_bucket_bytes"] = [4 * MIB]
        self.assertEqual(predict(other), predict())

    def test_only_probes_that_do_what_ddp_does_leave_memory_as_it_does(self):
        part = launch()
        for step in steps_of(part, "probe"):
            sent = step["collectives"]
            if sent["in_flight"] and len(sent["bytes"]) == 4 and sent["kind"] == "all_reduce":
                del sent["bytes"][3], sent["ns"][3]
            elif sent["kind"] == "all_reduce":
                continue
            step["optimizer_ns"] = 1000 * MS
        self.assert_step(107, part)

    def test_launches_are_averaged_and_span_the_interval(self):
        slow = launch()
        for step in steps_of(slow, "probe"):
            step["optimizer_ns"] = 26 * MS
        both = predict(launch(), slow)
        self.assertAlmostEqual(both.step_s.value, 117e-3)
        self.assertAlmostEqual(both.exposed_s, 40e-3)
        self.assertLess(both.step_s.low, 107e-3)
        self.assertGreater(both.step_s.high, 127e-3)

    def test_computation_is_scaled_to_where_the_answer_holds_and_the_link_is_not(self):
        slow = launch()
        for step in steps_of(slow, "none"):
            step["step_ns"] *= 2
        self.assert_step(2 * 67 + 40, flags={"at": written(slow)})
        self.assertAlmostEqual(ask(at=written(slow)).none_s, 126e-3)

    def test_takes_the_link_of_another_recording(self):
        other = launch()
        for sent in sent_by(other):
            sent["ns"] = [3 * ns for ns in sent["ns"]]
        self.assert_step(67 + 120, flags={"link": written(other)})
        self.assert_step(67 + 80, flags={"link": written(launch(), other)})  # their mean

    def test_broadcasts_over_another_recordings_link_are_those_of_its_ranks(self):
        four = launch()
        four.update(world_size=4, hosts=4 * ["a"], cores=4, ranks=2 * four["ranks"])
        link = written(four)
        self.assert_step(64 + 40 + 30, flags={"link": link, "world_size": 4}, zero1=True)
        # Of 2 ranks nothing was measured: a third of the 4 ranks' hops, each of twice the bytes.
        self.assert_step(64 + 2 * 80 / 3, flags={"link": link}, zero1=True)

    def test_a_link_is_a_ring(self):
        # Between 2 ranks the bytes of an all-reduce travel once: 100 ms, and two latencies. A data
        # sheet tells it to 10 %.
        flags = {"link": wire(0.1, "1ms")}
        over = predict(computing(1e-9), flags=flags).step_s
        self.assertAlmostEqual(over.value, 0.169)
        self.assertAlmostEqual(over.low, over.value - 0.102 * 1.96 * 0.095, delta=2e-3)
        self.assertAlmostEqual(over.high, over.value + 0.102 * 1.96 * 0.105, delta=2e-3)
        self.assert_step(
            67 + 14 * (1 + 12.5), flags={**flags, "world_size": 8, "algorithm": "ring"}
        )
        # Weights are broadcast by one rank after the other: all bytes travel once.
        self.assert_step(64 + 102 + 102, flags=flags, zero1=True)
        equal = launch()  # four ranks share three equal parameters
        equal["parameters"][1]["numel"] = equal["parameters"][0]["numel"]
        self.assert_step(
            61 + 2 + 6 * (1 + 25) + 2 * 4 * (1 + 25),  # a root of four sends to two ranks
            equal,
            zero1=True,
            flags={**flags, "world_size": 4, "algorithm": "ring"},
        )
        self.assert_step(20 + 40 + 77 + 7, flags=flags, **A_SCRIPTS_OWN)
        # gloo knows a ring alone; NCCL chooses: here a tree, 2 x 3 latencies and all bytes twice.
        many = {**flags, "world_size": 8, "link": wire(0.001, "10ms")}
        ring, tree = 67 + 14 * (10 + 0.125), 67 + 2 * (3 * 10 + 1)
        self.assert_step(ring, flags=many)
        self.assert_step(ring, flags={**many, "algorithm": "ring"})
        self.assert_step(tree, flags={**many, "algorithm": "best"})
        nccl = {**launch(), "backend": "nccl"}
        self.assert_step(tree, nccl, flags=many)
        self.assert_step(ring, nccl, flags={**many, "algorithm": "ring"})
        # Where bytes take the processor, 10 ms a MiB, they take it over a wire too, beside the
        # wire's time for frames: so much of the first bucket's time slows down the 30 ms of
        # backward that are left.
        busy, mib = launch(), 25 * 1514 / 1448 + 10
        for sent in sent_by(busy):
            sent["cpu_ns"] = sent["wall_ns"]
        self.assert_step(
            20 + 10 + mib + 2 + 30 * 10 / (mib + 2) + 3 * mib + 2 + 7,
            busy,
            flags=flags,
            **A_SCRIPTS_OWN,
        )
        self.assert_step(
            20 + 10 + mib + 2 + 3 * mib + 2 + 7 + 30 * (1 - 1 / (1 + 0.2)),
            busy,
            flags={**flags, "processor_percent": 20},
            delta=8,
            **A_SCRIPTS_OWN,
        )

    def test_without_processes_only_a_link_that_is_named_tells(self):
        with self.assertRaisesRegex(
            Refused, "nothing was communicated: name a link and how many ranks"
        ):
            predict(alone())
        with self.assertRaisesRegex(Refused, "one rank communicates with nobody"):
            predict(alone(), flags={"link": wire(0.1)})
        self.assert_step(167, alone(), flags={"link": wire(0.1), "world_size": 2}, delta=1e-3)

    def test_more_ranks_take_the_recorded_link_around_a_ring(self):
        # Each hop as long for half of the bytes, and three times as many.
        self.assert_step(67 + 60, flags={"world_size": 4})


if __name__ == "__main__":
    unittest.main()
