"""What ranks tell each other of a step, and what is said of it. Needs no PyTorch."""

import dataclasses
import json
import sys
import unittest

sys.path.insert(0, "tools/pytorch")
from gradsync.agreement import RankStep, judge_agreement, passes_of
from gradsync.findings import Cost, Coverage, Findings, Status, Topic, report
from gradsync.losses import PassLoss

EPS = 2.0**-23
STEP = RankStep(
    parameters={"what trains": "['weight [2]']"},
    settings={"lr of group 0": "0.1"},
    weights={"weight": "torch.float32 (2,) " + 32 * "0"},
    buffers={},
    versions={"PyTorch": "2.15.0"},
    data=[],
    targets=[],
    gradients="",
    losses=[],
    is_divided_by_all=False,
    random="",
)


def steps(*changes):
    """The steps of as many ranks, which differ from STEP."""
    return [dataclasses.replace(STEP, **change) for change in changes]


def said(ranks):
    findings = Findings()
    judge_agreement(ranks, "SGD at train.py:7", findings)
    wrong = [(int(Status.DIFFERS), text) for text in findings.differences()]
    return wrong + [(int(Status.SAME), text) for text in findings.notes()]


class AgreementTest(unittest.TestCase):
    def test_a_step_is_what_it_was_after_json(self):
        step = dataclasses.replace(
            STEP, losses=[None, PassLoss(0.5, 3, 0.25, EPS, "train.py:7")], data=["a"]
        )
        again = RankStep.from_json(json.loads(json.dumps(step.to_json())))
        self.assertEqual(again, step)

    def test_equal_ranks_have_nothing_to_say(self):
        self.assertEqual(said(steps({"random": "a"}, {"random": "b"})), [])
        self.assertEqual(said(steps({})), [])

    def test_the_first_difference_names_its_ranks_and_short_values(self):
        ranks = steps(
            {"settings": {}},
            {"settings": {"lr of group 0": "0.1", "eps of group 0": "1"}},
            {"settings": {"lr of group 0": "0.2", "eps of group 0": "2"}},
        )
        differs = "settings of SGD at train.py:7: lr of group 0 differs between ranks 1 and 2"
        self.assertEqual(said([*ranks])[0], (1, differs + ": 0.1 and 0.2"))
        for length, shown in ((31, ": 0.1 and " + 31 * "9"), (32, "")):
            ranks[2].settings["lr of group 0"] = length * "9"
            self.assertEqual(said(ranks)[0], (1, differs + shown))

    def test_each_topic_is_compared_and_versions_are_a_note(self):
        for topic in ("parameters", "settings", "weights", "buffers", "versions"):
            ranks = steps({topic: {"x": "1"}, "random": "a"}, {topic: {"x": "2"}, "random": "b"})
            text = f"{topic} of SGD at train.py:7: x differs between ranks 0 and 1: 1 and 2"
            self.assertEqual(said(ranks), [(0 if topic == "versions" else 1, text)])

    def test_random_numbers_should_differ(self):
        texts = said(steps({"random": "a"}, {"random": "a"}))
        self.assertEqual([status for status, _ in texts], [0])
        self.assertIn("random numbers have the same state on all ranks", texts[0][1])

    def test_batches_are_the_same_by_gradients_or_by_inputs_and_targets(self):
        same = (1, "ranks get the same batches in the step of SGD at train.py:7")
        inputs = (
            0,
            "ranks get the same inputs in the step of SGD at train.py:7: right if their targets "
            "differ",
        )
        for data, targets, gradients, expected in (
            ("abc", "   ", "   ", []),
            ("aba", "   ", "   ", [inputs]),
            ("aba", "xyz", "   ", [inputs]),
            ("aba", "xyx", "   ", [same]),
            ("abc", "xxx", "   ", []),
            ("   ", "xxx", "   ", []),
            ("   ", "   ", "gfg", [same]),
            ("aaa", "xyz", "ggg", [same]),
            ("abc", "xyz", "ggg", []),  # as of a parameter that no input changes
        ):
            ranks = steps(
                *(
                    {
                        "data": [*one.strip()],
                        "targets": [*target.strip()],
                        "gradients": gradient.strip(),
                        "random": str(number),
                    }
                    for number, (one, target, gradient) in enumerate(
                        zip(data, targets, gradients, strict=True)
                    )
                )
            )
            self.assertEqual(said(ranks), expected, (data, targets, gradients))

    def test_passes_are_those_of_the_rank_that_takes_most(self):
        self.assertEqual(passes_of(steps({"losses": [None]}, {"losses": [None, None]})), 2)
        self.assertEqual(passes_of(steps({}, {})), 1)


class FindingsTest(unittest.TestCase):
    def setUp(self):
        self.findings = Findings()
        self.coverage = Coverage(3, 4, ranks=2, steps=5, worst_share=0.333)
        self.cost = Cost(1.234, 5_678_000)

    def test_what_is_the_same_is_said_with_its_notes(self):
        self.findings.note(Topic.RANDOM, "a note")
        self.assertEqual(
            report(self.findings, self.coverage, self.cost),
            "gradsync: note    a note\n"
            "gradsync: same    3 of 4 parameters get the mean of 2 ranks' gradients in 5 steps, "
            "within 0.33 of what rounding can bring\n"
            "gradsync: cost    1.23 s, 5.68 MB of each rank\n",
        )

    def test_differences_leave_no_same(self):
        self.findings.note(Topic.RANDOM, "a note")
        self.findings.differs(Topic.DATA, "a difference")
        lines = report(self.findings, self.coverage, self.cost).splitlines()
        self.assertEqual(lines[:-1], ["gradsync: note    a note"])
        self.assertIs(self.findings.status(), Status.DIFFERS)

    def test_what_differs_is_printed_at_once_and_stays(self):
        printed = []
        findings = Findings(printed.append)
        findings.note(Topic.DATA, "a note")
        findings.differs(Topic.DATA, "first")
        self.assertEqual(printed, ["gradsync: differs first\n"])
        findings.differs(Topic.LOSS, "loss")
        findings.differs(Topic.DATA, "later")
        findings.note(Topic.DATA, "a note that would hide it")
        self.assertEqual(printed[1:], ["gradsync: differs loss\n"])
        self.assertEqual(findings.differences(), ["first", "loss"])
        self.assertEqual(findings.notes(), [])
        self.assertIn(Topic.LOSS, findings)
        self.assertNotIn(Topic.TWIN, findings)

    def test_of_notes_the_last_one_stays(self):
        self.findings.note(Topic.RANDOM, "first")
        self.findings.note(Topic.RANDOM, "last")
        self.assertEqual(self.findings.notes(), ["last"])


if __name__ == "__main__":
    unittest.main()
