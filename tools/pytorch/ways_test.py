"""Ways to train one model: memory, and the table, in numbers that can be computed by hand."""

import math
import unittest

from gradsync import memory, sharding
from gradsync.schema import Unit
from gradsync.sharding import Resharding
from sample_recordings import (
    MIB,
    MS,
    ask,
    launch,
    predictor,
    question,
    screen,
    sent_by,
    sharded,
    steps_of,
    with_units,
    written,
)


def with_memory(one, **changes):
    """Forward keeps 3 MiB; the gradients of `c`, `b` and `a` are ready in this order while 4, 5 and
    2 MiB are computed with.
    """
    one["memory"] = {
        "weight_bytes": 4 * MIB,
        "buffer_bytes": MIB,
        "state_bytes": 8 * MIB,
        "keeps_gradients": False,
        "forward_bytes": 3 * MIB,
        "order": [2, 1, 0],
        "ready_bytes": [2 * MIB, 5 * MIB, 4 * MIB],
        "held_bytes": [0, MIB, 2 * MIB],
        "optimizer_bytes": MIB,
        **changes,
    }
    return one


class MemoryTest(unittest.TestCase):
    def need(self, **changes):
        return memory.Need(question([with_memory(launch(), **changes)]).recording)

    def test_of_replicas(self):
        self.assertEqual(
            self.need().replicated(), ((4 + 1 + 8 + 4) * MIB, 5 * MIB)
        )  # gradients are views of buckets
        # Without buckets: 5 with the first gradient, or 2 with the first two, or all of them and
        # the optimizer's.
        self.assertEqual(self.need().replicated(buckets=False), (13 * MIB, 6 * MIB))
        self.assertEqual(
            self.need(optimizer_bytes=3 * MIB).replicated(buckets=False), (13 * MIB, 7 * MIB)
        )
        self.assertEqual(self.need().replicated(buckets=False, keeps=True), (13 * MIB, 9 * MIB))
        self.assertEqual(
            self.need(keeps_gradients=True).replicated(buckets=False), (13 * MIB, 9 * MIB)
        )
        self.assertEqual(sum(self.need().replicated(states=0.5)), (17 - 4 + 5) * MIB)
        self.assertEqual(self.need().replicated(batch=3).moving, 15 * MIB)
        self.assertEqual(self.need().replicated(more=2 * MIB).moving, 7 * MIB)
        copied = question([with_memory({**launch(), "views": False})])
        self.assertEqual(memory.Need(copied.recording).replicated(), (17 * MIB, 6 * MIB))

    def test_of_shards(self):
        units = [Unit("", (0, 2), False), Unit("h.0", (1,), True)]
        # Forward holds the root's 2 MiB and two of the block's 2. Then `c` is ready; the block's
        # gradient while its weights and the root's are there, with 5 MiB; its buffer for its
        # weights; `a`: 2 MiB, the root, its gradient of `c`, the block's buffer and the half that
        # is summed.
        self.assertEqual(self.need().sharded(units, 2), ((2 + 4 + 1) * MIB, (5 + 4 + 1) * MIB))
        self.assertEqual(
            self.need(ready_bytes=[9 * MIB, 0, 0]).sharded(units, 2).moving,
            (9 + 2 + 1 + 2 + 1) * MIB,
        )
        self.assertEqual(
            self.need(forward_bytes=30 * MIB).sharded(units, 2).moving, (30 + 2 + 4) * MIB
        )
        self.assertEqual(
            self.need(forward_bytes=30 * MIB)
            .sharded(sharding.reshard(units, Resharding.NONE), 2)
            .moving,
            (30 + 4) * MIB,
        )
        self.assertEqual(
            self.need(held_bytes=[0, 20 * MIB, 0]).sharded(units, 2).moving, (20 + 4 + 1 + 2) * MIB
        )
        self.assertEqual(self.need().sharded(units, 4).fixed, (1 + 2 + 1) * MIB)
        # Whole gradients are there all the time: none come to the 5 MiB of `b` and 4 of weights.
        kept = self.need().sharded(units, 2, keeps=True)
        self.assertEqual(kept, ((7 + 4) * MIB, (5 + 4) * MIB))

    def test_of_shards_that_are_gathered_in_bf16_and_reduced_in_f32(self):
        one = with_memory(launch())
        for parameter in one["parameters"]:
            parameter["gathered_bytes"] = parameter["bytes"] // 2
        need = memory.Need(question([one]).recording)
        units = [Unit("", (0, 2), False), Unit("h.0", (1,), True)]
        # 5 MiB when `b` is ready, with both units' weights and the gradient of `c`.
        self.assertEqual(need.sharded(units, 2), (7 * MIB, (5 + 2 + 0.5) * MIB))
        # With 3 MiB beside the reduction of `b`: the root, gradients of `c` and `b`, and 2 MiB.
        held = memory.Need(
            question(
                [{**one, "memory": {**one["memory"], "held_bytes": [0, 4 * MIB, 0]}}]
            ).recording
        )
        self.assertEqual(held.sharded(units, 2).moving, (4 + 1 + 1.5 + 2) * MIB)
        # Passes add up in f32.
        self.assertEqual(need.sharded(units, 2, keeps=True), (11 * MIB, 7 * MIB))

    def test_units_that_stay_are_not_gathered_again(self):
        units = [Unit("", (), False), Unit("h.0", (0, 1), False), Unit("h.1", (2,), False)]
        # When `b` is ready: 5 MiB, its unit of 3, the buffer of `c`, and the half that is summed.
        self.assertEqual(self.need().sharded(units, 2).moving, (5 + 3 + 1 + 0.5) * MIB)

    def test_reads_sizes(self):
        for text, size in (
            ("80GB", 80e9),
            ("24GiB", 24 * 2**30),
            ("1.5 TB", 1.5e12),
            ("7B", 7),
            ("3KiB", 3072),
            ("3kB", 3e3),
        ):
            self.assertEqual(memory.parse_bytes(text), size)
        for text in ("", "80", "GB", "0GB", "80gb", "80G", "-1GB", "24kiB", "24KB"):
            self.assertIsNone(memory.parse_bytes(text), text)


class TableTest(unittest.TestCase):
    def ways(self, one, **flags):
        return {way.way: way for way in ask(one, **flags).ways}

    def test_what_is_sent_and_needed(self):
        ways = self.ways(with_memory(launch()))
        sent = {name: way.sent_bytes and way.sent_bytes / MIB for name, way in ways.items()}
        # Halves of 4 MiB: two for an all-reduce, three with ZeRO's gather; FSDP2's gather, and an
        # all-reduce in gloo.
        self.assertEqual(
            sent,
            {
                "DDP, bucket_cap_mb=1": 4,
                "ZeroRedundancyOptimizer": 6,
                "fully_shard": 6,
                "fully_shard, no reshard": 6,
                "HSDP": None,
                "bf16_compress_hook": 2,
                "no_sync: 4 times the passes": 1,
                "local SGD, H=8": 0.5,
                "local SGD, H=64": 4 / 64,
            },
        )
        self.assertEqual(ways["DDP, bucket_cap_mb=1"].memory_bytes, 22 * MIB)
        self.assertEqual(ways["ZeroRedundancyOptimizer"].memory_bytes, 18 * MIB)
        # The hook's copy of the largest bucket, which is half of 2 MiB.
        self.assertEqual(ways["bf16_compress_hook"].memory_bytes, 23 * MIB)
        self.assertEqual(ways["HSDP"].why, "needs four ranks, two on each of two hosts")
        # Passes that accumulate hold all gradients, which here are no views of buckets: 9 MiB with
        # them in backward, and 6 without.
        ways = self.ways(with_memory({**launch(), "views": False}))
        self.assertEqual(ways["DDP, bucket_cap_mb=1"].memory_bytes, 23 * MIB)
        self.assertEqual(ways["no_sync: 4 times the passes"].memory_bytes, 26 * MIB)

    def test_local_steps_average_now_and_then(self):
        ways = self.ways(launch())
        self.assertAlmostEqual(ways["local SGD, H=8"].step_s.value, (63 + 40 / 8) * 1e-3)
        self.assertAlmostEqual(ways["local SGD, H=64"].cost_s, 40e-3 / 64)
        # Only the average's 5 ms are uncertain, by what launches differ.
        step, far = ways["local SGD, H=8"].step_s, math.exp(1.96 * 0.03)
        self.assertAlmostEqual(step.low, 63e-3 + 5e-3 / far, delta=2e-5)
        self.assertAlmostEqual(step.high, 63e-3 + 5e-3 * far, delta=2e-5)
        slow = launch()
        for step in steps_of(slow, "none"):
            step["step_ns"] *= 2
        there = self.ways(launch(), at=written(slow))
        self.assertAlmostEqual(there["local SGD, H=8"].step_s.value, (2 * 63 + 40 / 8) * 1e-3)

    def test_hosts_replicate_and_their_ranks_share(self):
        flags = {
            "world_size": 8,
            "ranks_per_host": 4,
            "link": "8Gbit,0.000001us",
            "within": "80Gbit,0.000001us",
        }
        row = self.ways(with_memory(launch()), **flags)["HSDP, 4 ranks share"]
        gather_s, between_s = 4 * MIB * 0.75 / 10e9, 4 * MIB / 1e9
        # The gather, the sum within, and an all-reduce between two hosts, of which each sends all
        # bytes once over its link. A rank updates what it shares with three others.
        step_s = (57 + 1 + 5 / 4) * 1e-3 + 2 * gather_s + between_s
        self.assertAlmostEqual(row.step_s.value, step_s, delta=2e-4)
        self.assertAlmostEqual(row.sent_bytes / MIB, 4 * (0.75 + 0.75 + 0.25))
        # A quarter of weights and state, 1 of buffers, and 10 in backward: two gradients and the
        # whole unit.
        self.assertEqual(row.memory_bytes, (3 + 1 + 10) * MIB)
        self.assertIn("name a rate as --link", self.ways(launch(), world_size=8)["HSDP"].why)
        rate = {"link": "8Gbit,1us", "world_size": 8}
        self.assertEqual(
            self.ways(launch(), **rate)["HSDP"].why, "needs --ranks_per_host of 2 or more"
        )
        for on_host in (3, 8):
            self.assertEqual(
                self.ways(launch(), **rate, ranks_per_host=on_host)["HSDP"].why,
                "needs --ranks_per_host that divides 8 ranks into two or more hosts",
            )

    def test_between_hosts_processors_move_what_hsdp_sends(self):
        busy = launch()
        for sent in sent_by(busy):
            sent["cpu_ns"] = sent["wall_ns"] / 10
        flags = {"world_size": 4, "ranks_per_host": 2, "link": "80Mbit,0.000001us"}
        name = "HSDP, 2 ranks share"
        free, own = (self.ways(one, **flags)[name].step_s.value for one in (launch(), busy))
        # An all-reduce of 4 MiB between two hosts sends each byte once, in frames, and a byte's
        # hop waits for what a processor takes: a tenth of 40 ms for each 4 MiB.
        self.assertAlmostEqual(own - free, 4 * MIB / 10e6 * 66 / 1448 + 4e-3, delta=1e-4)
        # In the probes of four ranks each rank sent 1.5 times the bytes.
        more = {"world_size": 4, "hosts": ["host"] * 4}
        free4, own4 = (
            self.ways({**one, **more, "ranks": 2 * one["ranks"]}, **flags)[name].step_s.value
            for one in (launch(), busy)
        )
        self.assertAlmostEqual(own4 - free4, 4 * MIB / 10e6 * 66 / 1448 + 4e-3 / 1.5, delta=1e-4)
        # Each launch has processors of its own, in either order.
        for both in ((launch(), busy), (busy, launch())):
            ways = {way.way: way for way in ask(*both, **flags).ways}
            self.assertAlmostEqual(ways[name].step_s.value, (free + own) / 2, delta=1e-4)

    def test_hsdp_takes_less_over_a_faster_link(self):
        flags = {"world_size": 4, "ranks_per_host": 2, "link": "80Mbit,0.000001us"}
        asked = predictor(launch(), **flags)
        network = asked.question.link.network
        whole, half = (asked.hybrid_step(network, 2, pace).step_s.value for pace in (1, 0.5))
        # Over one of any rate it takes the 57 and 1 ms of computation and half of 5 of the update.
        self.assertAlmostEqual(whole - half, (whole - (57 + 1 + 5 / 2) * 1e-3) / 2, delta=1e-6)

    def test_says_what_ranks_wait_for(self):
        self.assertIn(" ranks only wait for gradients after backward (exposed)\n", screen(launch()))
        text = screen(sharded())
        self.assertIn(" ranks only wait for weights or gradients (exposed)\n", text)
        self.assertNotIn("after backward", text)

    def test_what_was_not_probed_is_not_told(self):
        one = sharded()
        for step in steps_of(one, "probe"):
            if step["collectives"]["kind"] in ("zero1", "bf16"):
                del step["collectives"]
        ways = self.ways(one)
        self.assertEqual(
            [ways[way].why for way in ("ZeroRedundancyOptimizer", "bf16_compress_hook")],
            ["this recording has no probe of it: name a link"] * 2,
        )
        self.assertTrue(self.ways(one, link="8Gbit")["ZeroRedundancyOptimizer"].step_s)

    def test_one_sentence_names_the_fastest_that_fits(self):
        one = with_units(with_memory(launch()))
        self.assertIn("\nThe fastest way is DDP, bucket_cap_mb=1.", screen(one))
        # Nobody knows how long FSDP2's collectives take in a script without it.
        self.assertIn(
            "that fits is undecided: ZeroRedundancyOptimizer, or fully_shard",
            screen(with_memory(launch()), memory="20MB"),
        )
        # 23.07 MB for DDP, 18.87 for ZeRO-1, 14.68 and 16.78 for FSDP2.
        for limit, said in (
            ("24MB", "that fits is DDP, bucket_cap_mb=1."),
            ("20MB", "that fits is ZeroRedundancyOptimizer."),
            ("1kB", "No way fits: fully_shard"),
        ):
            self.assertIn(said, screen(one, memory=limit))
        self.assertIn(
            "What fits is unknown: this recording holds no memory.", screen(memory="80GB")
        )
        slow = with_memory(launch())
        for step in steps_of(slow, "probe") + steps_of(slow, "none"):
            step["optimizer_ns"] = 600 * MS
        self.assertIn("The fastest way is undecided: ", screen(one, slow))

    def test_how_large_a_batch_fits(self):
        batches = ask(with_memory(launch()), memory="32MiB").batches
        # 17 MiB and 5 for each batch; ZeRO-1 has 13 and 5.
        self.assertAlmostEqual(batches["DDP, bucket_cap_mb=1"], 3, delta=0.01)
        self.assertAlmostEqual(batches["ZeroRedundancyOptimizer"], 19 / 5, delta=0.01)
        self.assertIn(
            "The largest batch in 33.55 MB, of the recorded one: DDP, bucket_cap_mb=1 3,",
            screen(with_memory(launch()), memory="32MiB"),
        )


if __name__ == "__main__":
    unittest.main()
