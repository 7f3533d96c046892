"""Logs in formats of public reports, in link_logs: each is read right, or refused by a word.

Numbers are made up. Line by line, expected.jsonl has what a file is and what is expected of it.
"""

import json
import pathlib
import unittest

from gradsync import Refused
from gradsync.link_file import read_link

FOLDER = pathlib.Path(__file__).absolute().parent / "link_logs"
EXPECTED = [json.loads(line) for line in (FOLDER / "expected.jsonl").read_text().splitlines()]


class LinkLogsTest(unittest.TestCase):
    def assert_right(self, path, expected):
        link = read_link(path, 0)
        self.assertEqual(link.world_size, expected["ranks"])
        for size, microseconds in expected["us"].items():
            seconds = link.costs.seconds(int(size))
            self.assertAlmostEqual(1e6 * seconds / microseconds, 1, delta=1e-3)
        self.assertEqual(len(link.says), len(expected["says"]), link.says)
        for said, word in zip(link.says, expected["says"], strict=True):
            self.assertIn(word, said)

    def test_each_is_read_or_refused(self):
        for expected in EXPECTED:
            path = str(FOLDER / expected["file"])
            with self.subTest(expected["file"]):
                if "refused" not in expected:
                    self.assert_right(path, expected)
                    continue
                with self.assertRaises(Refused) as refused:
                    read_link(path, 0)
                for word in expected["refused"]:
                    self.assertIn(word, str(refused.exception))

    def test_each_file_is_expected(self):
        files = {path.name for path in FOLDER.iterdir()} - {"expected.jsonl"}
        self.assertEqual(files, {expected["file"] for expected in EXPECTED})


if __name__ == "__main__":
    unittest.main()
