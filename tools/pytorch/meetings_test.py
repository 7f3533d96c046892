"""Ranks that come to a meeting, and those that do not, by a store in memory."""

import datetime
import threading
import unittest
from unittest import mock

from run_ranks import torch

import torch.distributed as dist

from gradsync import Refused, meetings
from gradsync.meetings import Meetings, Reason


class Clock:
    """Time that passes as somebody sleeps."""

    def __init__(self):
        self.now = 1000.0
        self.lock = threading.Lock()

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        with self.lock:
            self.now += seconds


class MeetingsTest(unittest.TestCase):
    def setUp(self):
        self.clock = Clock()
        self.store = dist.HashStore()
        self.store.set_timeout(datetime.timedelta(seconds=300))
        for patch in (
            mock.patch.object(meetings.time, "monotonic", self.clock.monotonic),
            mock.patch.object(meetings.time, "sleep", self.clock.sleep),
        ):
            patch.start()
            self.addCleanup(patch.stop)

    def ranks(self, count=2):
        """As many ranks, in this process."""
        made = []
        for rank in range(count):
            with (
                mock.patch.object(dist, "is_initialized", lambda: True),
                mock.patch.object(dist, "get_world_size", lambda: count),
                mock.patch.object(dist, "get_rank", lambda rank=rank: rank),
                mock.patch.object(meetings, "default_store", lambda: self.store),
            ):
                one = Meetings()
                one.begin_pass("f:0")
            made.append(one)
        return made

    def arrive(self, *others):
        """Lets others come to the meeting at which they are next, as if they waited."""
        for one in others:
            one._set(one._place_of(one._rank), one._own.skipped)

    def assert_absent(self, absence, rank, reason, text, speaker=0):
        self.assertEqual((absence.rank, absence.reason), (rank, reason))
        self.assertIn(text, absence.text)
        self.assertEqual(absence.speaker, speaker)

    def test_all_come(self):
        zero, one = self.ranks()
        for _ in range(3):
            self.arrive(one)
            self.assertIsNone(zero.meet())
            self.assertIsNone(one.meet())
        self.assertLess(self.clock.now, 1001)

    def test_one_alone_waits_for_nobody(self):
        alone = Meetings()
        alone.begin_pass("f:1")
        alone.end("has ended")
        self.assertIsNone(alone.meet())
        self.assertIsNone(alone.meet_at_end())
        alone.close()
        self.assertFalse(alone.is_closed())

    def test_one_whose_scaler_leaves_out_the_update(self):
        zero, one = self.ranks()
        one.skip("f:9")
        self.assert_absent(zero.meet(), 1, Reason.SKIPPED, "GradScaler at f:9")
        self.assertLess(self.clock.now, 1001)  # at once

    def test_all_scalers_leave_out_an_update(self):
        zero, one = self.ranks()
        for rank in (zero, one):
            rank.skip("f:9")
        with mock.patch.object(meetings.time, "sleep", lambda _: self.arrive(one)):
            self.assertIsNone(zero.meet())

    def test_one_that_has_left_out_an_update_comes_to_the_next(self):
        zero, one = self.ranks()
        one.skip("f:9")
        self.arrive(one)
        self.assert_absent(zero.meet(), 1, Reason.SKIPPED, "has left out a step before")
        self.arrive(zero)
        self.assert_absent(one.meet(), 1, Reason.SKIPPED, "has left out a step before")

    def test_one_that_goes_on_and_stops(self):
        for go_on in (Meetings.begin_pass, Meetings.begin_call):
            zero, one = self.ranks()
            go_on(one, "f:7")
            began = self.clock.now
            self.assert_absent(zero.meet(), 1, Reason.WENT_ON, "its next pass at f:7")
            self.assertGreaterEqual(self.clock.now - began, meetings.GRACE_S)
            self.assertLess(self.clock.now - began, meetings.GRACE_S + 1)

    def test_one_that_takes_more_passes_has_the_time_of_a_step_for_each(self):
        zero, one = self.ranks()
        zero.begin_call("f:1")
        self.clock.now += 30  # which a step takes
        waits = 0

        def sleep(seconds):
            nonlocal waits
            self.clock.now += seconds
            if self.clock.now > 1030 + 31 * (waits + 1):
                waits += 1
                one.begin_pass(f"f:{waits}")
            if waits == 4:
                self.arrive(one)

        with mock.patch.object(meetings.time, "sleep", sleep):
            self.assertIsNone(zero.meet())

    def test_time_in_which_all_are_stopped_does_not_count(self):
        zero, one = self.ranks()
        one.begin_call("f:1")  # and comes soon
        looks = 0

        def sleep(seconds):
            nonlocal looks
            looks += 1
            self.clock.now += 1000
            if looks == 5:
                self.arrive(one)

        with mock.patch.object(meetings.time, "sleep", sleep):
            self.assertIsNone(zero.meet())

    def test_one_that_is_late_is_waited_for_as_long_as_the_script_would(self):
        zero, one = self.ranks()
        self.assert_absent(zero.meet(), 1, Reason.LATE, "does not come within 300 s")
        self.assertGreater(self.clock.now, 1300)

    def test_one_that_is_at_an_earlier_meeting_is_late(self):
        zero, one = self.ranks()
        self.arrive(one)
        self.assertIsNone(zero.meet())
        one.begin_pass("f:1")  # on its way to the first meeting
        one.skip("f:2")
        self.assertIs(zero.meet().reason, Reason.LATE)

    def test_one_that_has_ended(self):
        zero, one, two = self.ranks(3)
        zero.end("has failed: ValueError, at f:3")
        self.arrive(two)
        self.assert_absent(one.meet(), 0, Reason.ENDED, "ValueError, at f:3", speaker=1)

    def test_the_end_of_all_scripts(self):
        zero, one = self.ranks()
        one.end("has ended")
        zero.end("has ended")
        self.assertIsNone(zero.meet_at_end())
        self.assertIsNone(one.meet_at_end())

    def test_the_end_of_some_scripts(self):
        zero, one = self.ranks()
        zero.end("has ended")
        self.arrive(one)
        text = "comes to another step of an optimizer"
        self.assert_absent(zero.meet_at_end(), 1, Reason.WENT_ON, text)

        self.store = dist.HashStore()
        zero, one = self.ranks()
        zero.end("has ended")
        one.begin_call("f:4")
        self.assert_absent(zero.meet_at_end(), 1, Reason.WENT_ON, "its next pass at f:4")

    def test_the_check_is_over(self):
        zero, one, two = self.ranks(3)
        threading.Thread(target=two.is_closed).start()
        zero.close()
        self.assertIs(one.meet().reason, Reason.OVER)
        self.assertTrue(one.is_closed())

    def test_a_rank_that_never_prints_is_not_waited_for_for_ever(self):
        _, one = self.ranks()
        self.assertFalse(one.is_closed())
        self.assertLess(self.clock.now, 1000 + meetings.PRINTING_S + 1)

    def test_a_store_that_is_lost(self):
        zero, _ = self.ranks()
        zero._store = mock.Mock()
        zero._store.check.side_effect = RuntimeError("Connection reset\nframe 0")
        with self.assertRaisesRegex(Refused, "^ranks do not meet: RuntimeError: Connection reset$"):
            zero.meet()


if __name__ == "__main__":
    torch.set_num_threads(1)
    unittest.main()
