"""Ways to train one model: schedules of FSDP2, memory, and the table, in numbers that can be computed by hand."""

import json
import unittest

import sample_recordings
from gradsync import memory, replay, sharding
from gradsync.link import Cost, LinkCosts
from gradsync.sharding import Unit, collectives
from sample_recordings import (
    MIB,
    MS,
    alone,
    ask,
    launch,
    predict,
    question,
    screen,
    sent_by,
    steps_of,
)

ALL_OF = ("pre_forward", "post_forward", "pre_backward", "post_backward")


def blocks(count, reshards=True):
    return [Unit("", (), False), *(Unit(f"h.{k}", (), reshards) for k in range(count))]


def events(count):
    """A root around blocks, each of which takes 10 s forward and 20 s backward."""
    forward, ends = 10 * count, 30 * count
    rows = [(0, "pre_forward", 0)]
    for k in range(count):
        rows += [(10 * k, "pre_forward", 1 + k), (10 * (k + 1), "post_forward", 1 + k)]
    rows += [(forward, "post_forward", 0), (forward, "pre_backward", 0)]
    for k in range(count):
        rows += [
            (forward + 20 * k, "pre_backward", count - k),
            (forward + 20 * (k + 1), "post_backward", count - k),
        ]
    return [*rows, (ends, "post_backward", 0)]


def sharded(**changes):
    """The launch under FSDP2: a unit of `b` and the root. A unit is gathered in 3 ms a MiB, and reduced in 5."""
    one = launch()
    one["units"] = [
        {"name": "", "parameters": [0, 2], "reshards": False},
        {"name": "h.0", "parameters": [1], "reshards": True},
    ]
    for step in steps_of(one, "none") + steps_of(one, "probe"):
        step.update(
            units_ns=[[0, 19 * MS, 19 * MS, 57 * MS], [5 * MS, 15 * MS, 25 * MS, 45 * MS]],
            gather_ns=[6 * MS, 6 * MS],
            reduce_ns=[10 * MS, 10 * MS],
        )
    one["rows"] = [{**one["rows"][0], "fsdp": True, "rebuilt_bucket_bytes": []}]
    return {**one, **changes}


def with_memory(one, **changes):
    """Forward keeps 3 MiB; the gradients of `c`, `b` and `a` are ready in this order while 4, 5 and 2 MiB are computed with."""
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


def with_units(one):
    """A probe of FSDP2's gathers and reductions of two blocks."""
    sent = {
        "kind": "fully_shard",
        "in_flight": 1,
        "bytes": [3 * MIB, MIB],
        "ns": [MS] * 2,
        "in_ns": [26 * MS, 9 * MS],
        "out_ns": [47 * MS, 15 * MS],
        "wall_ns": 99 * MS,
        "cpu_ns": 0,
    }
    for steps in one["ranks"]:
        steps += [
            {**step, "collectives": {**sent}}
            for step in steps
            if step.get("collectives", {}).get("kind") == "zero1"
        ]
    return json.loads(json.dumps(one))


class ScheduleTest(unittest.TestCase):
    def order(self, units, overlaps=True, rows=None):
        return [
            (c.kind[0], c.unit)
            for c in collectives(rows or events(len(units) - 1), units, overlaps)
        ]

    def test_forward_gathers_what_it_calls_and_backward_one_unit_ahead(self):
        gathers = [("a", u) for u in (0, 1, 2, 3)]
        for overlaps in (False, True):
            # The prefetch of the last block is issued when the root's backward begins.
            self.assertEqual(
                self.order(blocks(3), overlaps),
                gathers + [("a", 3), ("a", 2), ("r", 3), ("a", 1), ("r", 2), ("r", 1), ("r", 0)],
            )
            self.assertEqual(
                self.order(blocks(3, False), overlaps),
                gathers + [("r", 3), ("r", 2), ("r", 1), ("r", 0)],
            )

    def test_units_without_parameters_are_none(self):
        self.assertEqual(
            [c.unit for c in collectives(events(2), blocks(2), True, empty={0})], [1, 2, 2, 1, 2, 1]
        )

    def test_what_is_issued_ahead_and_what_waits(self):
        plan = collectives(events(3), blocks(3), True)
        forward, backward = [c for c in plan[:4]], plan[4:]
        # A buffer is copied out before the next unit but one is gathered.
        self.assertEqual(
            [(c.issued, c.needed) for c in forward], [(0, 0), (0, 0), (0, 10), (0, 20)]
        )
        self.assertEqual(
            [(c.kind[0], c.unit, c.issued, c.needed) for c in backward],
            [
                ("a", 3, 30, 30),
                ("a", 2, 30, 50),
                ("r", 3, 50, 70),
                ("a", 1, 50, 70),
                ("r", 2, 70, 90),
                ("r", 1, 90, 90),
                ("r", 0, 90, None),
            ],
        )
        self.assertTrue(
            all(c.issued == c.needed for c in collectives(events(3), blocks(3), False)[:4])
        )

    def test_passes_that_do_not_reduce_gather_again(self):
        first = [
            (moment, "accumulate" if which == "post_backward" else which, unit)
            for moment, which, unit in events(1)
        ]
        plan = self.order(
            blocks(1),
            rows=first + [(moment + 30, which, unit) for moment, which, unit in events(1)],
        )
        self.assertEqual(
            plan, [("a", 0), ("a", 1), ("a", 1), ("a", 0), ("a", 1), ("a", 1), ("r", 1), ("r", 0)]
        )

    def test_blocks_are_what_names_number(self):
        names = [
            "wte.weight",
            "h.0.a.weight",
            "h.0.mlp.1.weight",
            "h.1.a.weight",
            "ln.bias",
            "0.weight",
        ]
        units = sharding.units_of({"units": [], "parameters": [{"name": name} for name in names]})
        self.assertEqual(
            [(u.name, u.parameters, u.reshards) for u in units],
            [("", (0, 4), False), ("h.0", (1, 2), True), ("h.1", (3,), True), ("0", (5,), True)],
        )


class BlockedReplayTest(unittest.TestCase):
    def transmitted(self, issued, needed, backward, seconds, used=0):
        return replay.transmit(
            issued, backward, seconds, [[1] * len(seconds)], [[used] * len(seconds)], 1, 1, needed
        )

    def test_computation_waits_for_what_it_needs(self):
        self.assertEqual(
            self.transmitted([0, 0], [5, 12], 20, [10, 10]), (28, 20, 12)
        )  # waits from 5 to 10 and from 17 to 20
        self.assertEqual(self.transmitted([0], [20], 20, [10])[0], 20)
        self.assertEqual(self.transmitted([3], [3], 20, [10])[0], 30)

    def test_what_waits_is_not_slowed_down_and_does_not_slow_down(self):
        self.assertEqual(self.transmitted([4], [4], 20, [10], used=0.5)[0], 30)
        # From 0 on both at 2 / 3; at 7.5 the 5 s of computation are over, and the rest goes alone.
        self.assertEqual(self.transmitted([0], [5], 20, [10], used=0.5), (27.5, 12.5, 5))

    def ranks_wait_for_the_slowest_in_each_part(self):
        def step(blocks):
            rounds = [[replay.Round(0, 0, ready, 10, 1, ready)] * 12 for ready in ([2, 4], [3, 8])]
            return replay.predict(
                replay.Step(
                    rounds, [1, 1], 2, LinkCosts([Cost(1, 1)]), 1, 1, 0, ["all_gather"] * 2, blocks
                )
            )

        # Parts of 3, 5 and 6 s, 2 collectives of half a second, 1 s after.
        self.assertAlmostEqual(step(True).step[0], 3 + 5 + 6 + 1 + 1)
        self.assertAlmostEqual(step(False).step[0], 10 + 1 + 1)
        self.assertAlmostEqual(step(True).exposed, 1)


class ShardedTest(unittest.TestCase):
    def test_over_gloo_a_step_is_a_sum(self):
        # Both are gathered, the block twice, and reduced.
        one = question([sharded()])
        self.assertAlmostEqual(
            1e3 * one.predict(one.own).step[0], 19 + 38 + 3 * 6 + 2 * 10 + 1 + 5, delta=1e-6
        )
        self.assertAlmostEqual(
            1e3 * one.predict_sharded("none").step[0], 63 + 2 * 6 + 2 * 10, delta=1e-6
        )
        self.assertIn("over gloo all wait for each collective", screen(sharded()))
        self.assertIn("fully_shard with 2 units will take", screen(sharded()))

    def test_over_gloo_and_a_named_link_a_reduction_is_an_all_reduce(self):
        one = sharded()
        for sent in sent_by(one, "all_reduce"):
            sent["cpu_ns"] = sent["wall_ns"] // 2
        for step in steps_of(one, "none") + steps_of(one, "probe"):
            step.update(gather_ns=[12 * MS] * 2, reduce_ns=[26 * MS] * 2)
        # Each rank sends half of what it gathers, and all of what it reduces: a MiB takes the wire, and half of the 10 ms that it
        # took without a link. What is above 20 ms for an all-reduce of 2 MiB, or 10 for half of it, are copies.
        sent = 1e3 * 1514 / 1448 * MIB / 125e6 + 5
        over = question([one], link="1Gbit,1us")
        self.assertAlmostEqual(
            1e3 * over.predict(over.own).step[0],
            63 + 3 * (sent + 2) + 2 * (2 * sent + 6),
            delta=0.05,
        )

    def test_who_waits_in_one_collective_may_be_last_in_the_next(self):
        one = sharded()
        for waits, steps in zip(([1, 11], [11, 2]), one["ranks"]):
            for step in steps:
                if step["mode"] != "ddp":
                    step.update(
                        gather_ns=[ms * MS for ms in waits],
                        reduce_ns=[(20 - ms) * MS for ms in waits],
                    )
        # The rank that began last took 12 ms to gather both, and 27 to reduce; of gathers of equal size another one in backward.
        self.assertAlmostEqual(
            1e3 * question([one]).predict_sharded(None).step[0], 63 + 3 * 6 + 27, delta=1e-6
        )

    def test_what_is_rare_and_long_in_a_step_of_many_is_not_lost(self):
        one = sharded()
        one["units"] = [
            {"name": name, "parameters": [k], "reshards": False}
            for k, name in enumerate(("", "h.0", "h.1"))
        ]
        for i, step in enumerate(steps_of(one, "none") + steps_of(one, "probe")):
            step.update(
                units_ns=[[0, 19 * MS, 19 * MS, 57 * MS]] * 3,
                gather_ns=[6 * MS] * 3,
                reduce_ns=[3 * MS] * 3,
            )
            step["gather_ns"][i % 3] += 9 * MS  # in each step another
        self.assertAlmostEqual(
            1e3 * question([one]).predict_sharded(None).step[0], 63 + 3 * 6 + 9 + 3 * 3, delta=1e-6
        )

    def test_a_gpu_overlaps_and_is_not_validated(self):
        one = question([sharded(device="NVIDIA H100", backend="nccl")])
        # The root is gathered at 0, for 6 ms; the block's until 12, for what is 5; its backward's from 19 to 25; reductions at
        # 45 and 57, of 10 ms each: 19 + 38 + 6 + 1 of gathers, and 10 + 1 + 5 behind.
        self.assertAlmostEqual(
            1e3 * one.predict(one.own).step[0], 6 + 1 + 57 + 10 + 1 + 5, delta=1e-6
        )
        self.assertIn(
            "its schedule on a GPU is not validated on one",
            screen(sharded(device="NVIDIA H100", backend="nccl")),
        )

    def test_units_of_another_script_are_its_blocks(self):
        # One unit of 4 MiB, gathered in half an all-reduce of 40 ms and reduced by one; half of the optimizer's work.
        self.assertAlmostEqual(
            1e3 * question([launch()]).predict_sharded("all").step[0],
            57 + 20 + 40 + 1 + 2.5,
            delta=1e-6,
        )
        self.assertIn("repeated blocks as units", screen())

    def test_units_of_another_script_take_what_a_probe_of_them_takes(self):
        one = with_units(launch())
        for parameter, name in zip(one["parameters"], ("h.0.a", "h.0.b", "c")):
            parameter["name"] = name
        self.assertAlmostEqual(
            1e3 * question([one]).predict_sharded("none").step[0],
            57 + 26 + 9 + 47 + 15 + 1 + 2.5,
            delta=1e-6,
        )
        # What copies take they take between more ranks, and over any link. Three of four parts are sent instead of one of two.
        wider = question([one], world_size=4).predict_sharded("none").step[0]
        self.assertAlmostEqual(
            1e3 * wider, 57 + 40 * 6 / 4 / 2 + 35 - 20 + 40 * 6 / 4 + 62 - 40 + 1 + 1.25, delta=1e-6
        )
        self.assertIn("repeated blocks as units; over", screen(one))
        self.assertIn("repeated blocks as units, without copies; over", screen())
        for change in ({"in_ns": [MS]}, {"in_flight": 0, "ns": [], "in_ns": [], "out_ns": []}):
            with self.assertRaisesRegex(ValueError, "lacks times of its collectives"):
                sent_by(one, "fully_shard")[1].update(change)
                question([one])

    def test_the_optimizer_updates_shards(self):
        one = sharded()
        self.assertAlmostEqual(
            predict(one).step[0] - predict().step[0], 6e-3
        )  # DDP's twice as much

    def test_is_compared_with_its_own_steps(self):
        (row,) = ask(sharded())["measured"]
        self.assertAlmostEqual(row["error"], 101 / 90 - 1)

    def test_units_and_their_times_are_checked(self):
        for change, said in (
            (lambda one: one["units"].pop(), "units do not hold each parameter once"),
            (lambda one: steps_of(one, "none")[3]["gather_ns"].pop(), "lacks times of its units"),
            (lambda one: one.update(memory={"ready_bytes": [1]}), "memory lacks parameters"),
        ):
            one = sharded()
            change(one)
            with self.assertRaisesRegex(ValueError, said):
                question([one])


class MemoryTest(unittest.TestCase):
    def need(self, **changes):
        return memory.Need(question([with_memory(launch(), **changes)]).recording)

    def test_of_replicas(self):
        self.assertEqual(
            self.need().replicated(), ((4 + 1 + 8 + 4) * MIB, 5 * MIB)
        )  # gradients are views of buckets
        # Without buckets: 5 with the first gradient, or 2 with the first two, or all of them and the optimizer's.
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
        # Forward holds the root's 2 MiB and two of the block's 2. Then `c` is ready; the block's gradient while its weights and the
        # root's are there, with 5 MiB; its buffer for its weights; `a`: 2 MiB, the root, its gradient of `c`, the block's buffer
        # and the half that is summed.
        self.assertEqual(self.need().sharded(units, 2), ((2 + 4 + 1) * MIB, (5 + 4 + 1) * MIB))
        self.assertEqual(
            self.need(ready_bytes=[9 * MIB, 0, 0]).sharded(units, 2).moving,
            (9 + 2 + 1 + 2 + 1) * MIB,
        )
        self.assertEqual(
            self.need(forward_bytes=30 * MIB).sharded(units, 2).moving, (30 + 2 + 4) * MIB
        )
        self.assertEqual(
            self.need(forward_bytes=30 * MIB).sharded(sharding.reshard(units, "none"), 2).moving,
            (30 + 4) * MIB,
        )
        self.assertEqual(
            self.need(held_bytes=[0, 20 * MIB, 0]).sharded(units, 2).moving, (20 + 4 + 1 + 2) * MIB
        )
        self.assertEqual(self.need().sharded(units, 4).fixed, (1 + 2 + 1) * MIB)
        self.assertEqual(self.need().sharded(units, 2, keeps=True).fixed, (7 + 4) * MIB)

    def test_reads_sizes(self):
        for text, size in (("80GB", 80e9), ("24GiB", 24 * 2**30), ("1.5 TB", 1.5e12), ("7B", 7)):
            self.assertEqual(memory.parse_bytes(text), size)
        for text in ("", "80", "GB", "0GB", "80gb", "80G", "-1GB"):
            self.assertIsNone(memory.parse_bytes(text), text)


class TableTest(unittest.TestCase):
    def ways(self, one, **flags):
        return {row["way"]: row for row in ask(one, **flags)["ways"]}

    def test_what_is_sent_and_needed(self):
        ways = self.ways(with_memory(launch()))
        sent = {way: row["sent_bytes"] and row["sent_bytes"] / MIB for way, row in ways.items()}
        # Halves of 4 MiB: two for an all-reduce, three with ZeRO's gather; FSDP2's gather, and an all-reduce in gloo.
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
        self.assertEqual(ways["DDP, bucket_cap_mb=1"]["memory_bytes"], 22 * MIB)
        self.assertEqual(ways["ZeroRedundancyOptimizer"]["memory_bytes"], 18 * MIB)
        self.assertEqual(ways["HSDP"]["why"], "needs four ranks, two on each of two hosts")

    def test_local_steps_average_now_and_then(self):
        ways = self.ways(launch())
        self.assertAlmostEqual(ways["local SGD, H=8"]["step_s"][0], (63 + 40 / 8) * 1e-3)
        self.assertAlmostEqual(ways["local SGD, H=64"]["cost_s"], 40e-3 / 64)

    def test_hosts_replicate_and_their_ranks_share(self):
        flags = {
            "world_size": 8,
            "ranks_per_host": 4,
            "link": "8Gbit,0.000001us",
            "within": "80Gbit,0.000001us",
        }
        row = self.ways(launch(), **flags)["HSDP, 4 ranks share"]
        gather_s, between_s = 4 * MIB * 0.75 / 10e9, 4 * MIB / 1e9
        # The gather, the sum within, and an all-reduce between two hosts, of which each sends all bytes once over its link.
        self.assertAlmostEqual(
            row["step_s"][0], (57 + 1 + 5 / 8) * 1e-3 + 2 * gather_s + between_s, delta=2e-4
        )
        self.assertAlmostEqual(row["sent_bytes"] / MIB, 4 * (0.75 + 0.75 + 0.25))
        self.assertIn("name a rate as --link", self.ways(launch(), world_size=8)["HSDP"]["why"])
        rate = {"link": "8Gbit,1us", "world_size": 8}
        self.assertEqual(
            self.ways(launch(), **rate)["HSDP"]["why"], "needs --ranks_per_host of 2 or more"
        )
        for on_host in (3, 8):
            self.assertEqual(
                self.ways(launch(), **rate, ranks_per_host=on_host)["HSDP"]["why"],
                "needs --ranks_per_host that divides 8 ranks into two or more hosts",
            )

    def test_says_what_ranks_wait_for(self):
        self.assertIn(" of it ranks wait for gradients after backward.", screen(launch()))
        text = screen(sharded())
        self.assertIn(" of it ranks wait for weights or gradients.", text)
        self.assertNotIn("after backward", text)

    def test_what_was_not_probed_is_not_told(self):
        one = sharded()
        for step in steps_of(one, "probe"):
            if step["collectives"]["kind"] in ("zero1", "bf16"):
                del step["collectives"]
        ways = self.ways(one)
        self.assertEqual(
            [ways[way]["why"] for way in ("ZeroRedundancyOptimizer", "bf16_compress_hook")],
            ["this recording has no probe of it: name a link"] * 2,
        )
        self.assertTrue(self.ways(one, link="8Gbit")["ZeroRedundancyOptimizer"]["step_s"])

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
        batches = ask(with_memory(launch()), memory="32MiB")["batches"]
        # 17 MiB and 5 for each batch; ZeRO-1 has 13 and 5.
        self.assertAlmostEqual(batches["DDP, bucket_cap_mb=1"], 3, delta=0.01)
        self.assertAlmostEqual(batches["ZeroRedundancyOptimizer"], 19 / 5, delta=0.01)
        self.assertIn(
            "The largest batch in 33.55 MB, of the recorded one: DDP, bucket_cap_mb=1 3,",
            screen(with_memory(launch()), memory="32MiB"),
        )


if __name__ == "__main__":
    unittest.main()
