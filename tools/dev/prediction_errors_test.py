"""What prediction_errors.py says of recordings whose errors are known."""
import contextlib
import io
import os
import pathlib
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).absolute().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "pytorch")]
import prediction_errors
from sample_recordings import MS, launch, steps_of, written


class PredictionErrorsTest(unittest.TestCase):
    def test_sizes_are_of_errors_to_both_sides(self):
        # Nine in ten of 1 to 12 are the first eleven; of ten, nine.
        errors = [0.01 * i * (-1)**i for i in range(1, 13)]
        self.assertEqual(prediction_errors.sizes("All", errors),
                         ["All: 12, median 6.5 %, nine in ten within 11.0 %, the largest 12.0 %."])
        self.assertEqual(prediction_errors.sizes("Ten", [None, *errors[:10]]),
                         ["Ten: 10, median 5.5 %, nine in ten within 9.0 %, the largest 10.0 %."])
        self.assertEqual(prediction_errors.sizes("None", [None]), [])

    def test_intervals_hold_the_models_error_if_processors_are_shared(self):
        launches = [launch(), launch()]
        for one in launches:
            for step in steps_of(one, "probe"):
                step["collectives"]["cpu_ns"] = step["collectives"]["wall_ns"]
        with tempfile.TemporaryDirectory(dir=os.environ.get("TEST_TMPDIR")) as directory:
            path = pathlib.Path(directory) / "a.loopback.jsonl"
            os.rename(written(*launches), path)
            line, = prediction_errors.coverage([path])
            self.assertEqual(prediction_errors.coverage([path]), [line])  # errors are put back
        self.assertIn("Of steps of other launches, at the computation there: 2, inside of what is predicted: 100 %; without the "
                      "model's own error in the intervals: 0 %.", line)

    def test_each_recording_is_predicted_from_itself_its_launches_and_loopback(self):
        # 97 ms are predicted of all; DDP takes 90, 100 in one launch, and 60 over one link.
        slow, fast = launch(), launch()
        for step in steps_of(slow, "ddp"):
            step["step_ns"] = 100 * MS
        for step in steps_of(fast, "ddp"):
            step["step_ns"] = 60 * MS
        with tempfile.TemporaryDirectory(dir=os.environ.get("TEST_TMPDIR")) as directory:
            for name, launches in (("a.loopback", [launch(), slow]), ("a.1gbit", [fast]), ("b.1gbit", [launch()])):
                os.rename(written(*launches), f"{directory}/{name}.jsonl")
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                prediction_errors.main(directory)
            lines = out.getvalue().splitlines()
            with contextlib.redirect_stdout(out):
                prediction_errors.main(directory, "--summary")
        # 97 ms beside 60, 95 and 90; beside 90 and 100; beside the other of these; beside 60.
        # Without synchronisation it takes 63; a step of 60 costs nothing that a part could be of.
        self.assertEqual(lines[:10], [
            "Errors of predictions: 3, median 7.8 %, nine in ten within 61.7 %, the largest 61.7 %.",
            "Of costs, which are steps less those without synchronisation: 2, median 16.1 %, nine in ten within 25.9 %, the largest "
            "25.9 %.",
            "Of these 2 costs 2 are predicted too long. Of 3 measured steps 0 are inside of what is predicted.",
            "Of second runs: 1, median 11.1 %, nine in ten within 11.1 %, the largest 11.1 %.",
            "Of 0 pairs of bucket sizes whose measured steps differ by more than their intervals, the faster one is predicted: 0.",
            "", "By one launch of two, of its own steps: 2, median 5.4 %, nine in ten within 7.8 %, the largest 7.8 %.",
            "Of the other launch's steps: 2, median 5.4 %, nine in ten within 7.8 %, the largest 7.8 %.",
            "Of steps of other launches, at the computation there: 2, inside of what is predicted: 0 %; without the model's own "
            "error in the intervals: 0 %. The spread of the logarithms of their costs: 0.17.",
            "From loopback, over the link of another model's recording: 1, median 61.7 %, nine in ten within 61.7 %, the largest "
            "61.7 %."])
        self.assertIn("whose rate and latency alone are given: 1, median", lines[10])
        self.assertEqual(lines[11], "Of these 1 are outside of what is predicted: 1.")
        self.assertEqual([line for line in lines if not line.startswith("  ")][12:],
                         ["", "```", "a.1gbit", "a.loopback", "b.1gbit", "```"])
        self.assertIn("  as the script has it            97 [95.29, 98.86] ms     90 ms +- 0.0 %         +7.8 %   +25.9 %", lines)
        self.assertEqual(out.getvalue().splitlines()[len(lines):], lines[:12])


if __name__ == "__main__":
    unittest.main()
