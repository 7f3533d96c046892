"""JSON and tables that programs write beside what they print, and logs that are wrapped in JSON."""

import json
import unittest

from gradsync.json_logs import log_of
from gradsync.link import Operation
from sample_logs import SIZES, LogTest, document, log, seconds

DOCUMENT = json.dumps(document(4))


def rccl_rows(measured_by=4, name="AllReduce", slower_out_of_place=3.0, **more):
    """Returns rows of rccl-tests, in the order of its columns, once out of place and once in place,
    with the digits that its stream prints."""
    factor = (2 if name == "AllReduce" else 1) * (measured_by - 1) / measured_by
    rows = []
    for size in SIZES:
        for in_place, slower in ((0, slower_out_of_place), (1, 1.0)):
            rate = size / seconds(size) / 1e9 / slower
            rows.append(
                {
                    "name": name,
                    **more,
                    "size": size,
                    "type": "float",
                    "redop": "sum" if name == "AllReduce" else "none",
                    "inPlace": in_place,
                    "time": float(f"{1e6 * seconds(size) * slower:.6g}"),
                    "algBw": float(f"{rate:.6g}"),
                    "busBw": float(f"{rate * factor:.6g}"),
                    "wrong": "0",
                }
            )
    return rows


def lines_of(rows):
    return [json.dumps(row) for row in rows]


def table_of(rows, columns):
    """Returns rows between commas, below the heading that rccl-tests write."""
    return [f"{columns}, size, type, redop, inplace, time, algbw, busbw, #wrong"] + [
        ", ".join(map(str, row.values())) for row in rows
    ]


def structured(root="-1"):
    """What Meta's nccl-tests write."""
    sizes = []
    for size in SIZES:
        rate = size / seconds(size) / 1e9
        half = {"time": 1e6 * seconds(size), "algbw": rate, "busbw": 1.5 * rate, "error": "N/A"}
        before = {"count": size // 4, "type": "float", "redop": "sum", "root": root}
        slow = {**half, "time": 3 * half["time"], "algbw": rate / 3, "busbw": rate / 2}
        halves = {
            f"{name}_{key}": values[key]
            for name, values in (("oop", slow), ("ip", half))
            for key in half
        }
        sizes.append({str(size): {**before, **halves}})
    return {"identifier": "nccl-tests structured output", "version": "1", "benchmark": sizes}


class DocumentsTest(LogTest):
    def test_documents_are_found_behind_other_lines_and_prefixes(self):
        for text in (
            f"NCCL version 2.29.2+cuda13.0\n{DOCUMENT}\ndone",
            f"[{DOCUMENT}]",
            json.dumps([{"name": "first", "result": document(4)}]),
            f"[1,0]<stdout>:{DOCUMENT}",
            f"2026-01-02T03:04:05Z stdout F {DOCUMENT}",
            f"result: {DOCUMENT} written",
            json.dumps(document(4), indent=0),
            json.dumps([document(4)], indent=2),
            "output: " + json.dumps(document(4), indent=2),
        ):
            self.assert_right(text, 4)
        spanning = json.dumps(document(4), indent=2).splitlines()
        for prefix in ("[1,0]<stdout>:", "0: ", "2026-01-02T03:04:05.678Z "):
            self.assert_right(["begin"] + [prefix + line for line in spanning] + ["end"], 4)

    def test_what_is_no_document_does_not_hide_one(self):
        for before in (
            "function {",
            "{\n{\n{",
            '{"a": "no end',
            "[0] NCCL INFO Using [0]mlx5_0:1/IB [RO]; OOB eth0",
            'env {"A": 1}',
            "if [",
        ):
            self.assert_right(f"{before}\nNCCL version 2.29\n{DOCUMENT}", 4)
        spanning = json.dumps(document(4), indent=2)
        self.assert_right(f"function {{\n  echo a\n}}\n{spanning}", 4)

    def test_documents_that_are_cut_off_are_refused(self):
        self.assert_refused("begin\n" + DOCUMENT[:3000], "none of its lines is a measurement")
        self.assert_refused(f"[{DOCUMENT}", "cut off or none at all, error at byte")
        self.assert_refused("[]", "none of its lines is a measurement")
        self.assert_refused('{"a": 1}', "none of its lines is a measurement")

    def test_lines_that_are_wrapped_in_json_are_lines(self):
        lines = log(4)
        docker = [json.dumps({"log": line + "\n", "stream": "stdout"}) for line in lines]
        self.assert_right(docker, 4)
        self.assert_right(docker[:-1] + [docker[-1][:20]], 4)  # the last one is cut off
        self.assert_right(["prefix " + line for line in docker], 4)
        self.assert_right(json.dumps({"stdout_lines": lines}), 4)
        self.assert_right(json.dumps([{"stdout": "\n".join(lines), "rc": 0}], indent=2), 4)
        wrapped = [json.dumps({"log": line}) for line in json.dumps(document(4)).splitlines()]
        self.assert_right(wrapped, 4)

    def test_lines_and_documents_are_kept_in_order(self):
        found = log_of('a\n{"x": ["b", {"y": "c\\nd"}]} e\n{"m": 1} {"m": 2.50}\nf {', is_marked)
        self.assertEqual(found.lines, ["a", "b", "c", "d", "e", "f {"])
        self.assertEqual(found.documents, [{"m": "1"}, {"m": "2.50"}])

    def test_a_text_within_texts_ends_somewhere(self):
        text = "last"
        for _ in range(9):
            text = json.dumps({"log": text})
        self.assertEqual(log_of(text, is_marked).lines, [])
        self.assertEqual(log_of('{"log": "{\\"log\\": \\"last\\"}"}', is_marked).lines, ["last"])

    def test_braces_without_an_end_are_looked_at_once(self):
        # Each would be followed to the last line; one is.
        found = log_of("{\n" * 20_000, is_marked)
        self.assertEqual(len(found.lines), 20_000)


def is_marked(value):
    return isinstance(value, dict) and "m" in value


class RcclTest(LogTest):
    def test_json_lines_of_rccl_tests(self):
        one_host = ["all ranks on one host"]
        self.assert_right(lines_of(rccl_rows(gpus=4)), 4, one_host)
        mpi = {"nodes": 2, "ranks": 4, "ranksPerNode": 2, "gpusPerRank": 1}
        self.assert_right(lines_of(rccl_rows(**mpi)), 4)
        self.assert_right(["RCCL version 2.22"] + lines_of(rccl_rows(**mpi)), 4)
        processes = {"nodes": 2, "ranks": 2, "ranksPerNode": 1, "gpusPerRank": 2}
        self.assert_right(lines_of(rccl_rows(**processes)), 4)
        alone = {"nodes": 1, "ranks": 4, "ranksPerNode": 4, "gpusPerRank": 1}
        self.assert_right(lines_of(rccl_rows(**alone)), 4, one_host)
        numbered = [
            {"#wrong" if k == "wrong" else k: v for k, v in row.items()} for row in rccl_rows(**mpi)
        ]
        self.assert_right(lines_of(numbered), 4)

    def test_rows_out_of_place_count_if_there_are_no_others(self):
        rows = [row for row in rccl_rows(slower_out_of_place=1, gpus=4) if not row["inPlace"]]
        self.assert_right(lines_of(rows), 4, ["one host"])

    def test_collectives_of_rccl_tests_are_told_apart(self):
        both = rccl_rows(nodes=2, ranks=4, ranksPerNode=2, gpusPerRank=1) + rccl_rows(
            name="AllGather", nodes=2, ranks=4, ranksPerNode=2, gpusPerRank=1
        )
        link = self.assert_right(lines_of(both), 4)
        self.assertTrue(link.costs.has(Operation.ALL_GATHER))
        self.assert_refused(
            lines_of(rccl_rows(name="AllGather", gpus=4)), "measured all_gather: expected"
        )
        self.assert_refused(
            lines_of(rccl_rows(4, gpus=8)), "lists 8 ranks, but busbw / algbw is 1.5"
        )

    def test_errors_and_lacking_numbers_are_said(self):
        rows = rccl_rows(gpus=4)
        wrong = [{**row, "wrong": "3"} for row in rows]
        self.assert_right(lines_of(wrong), 4, ["one host", "FAILED"])
        rows[-1] = {**rows[-1], "time": "nan"}
        self.assert_right(lines_of(rows), 4, ["one host", "with themselves: 1"])

    def test_tables_of_rccl_tests(self):
        heading = "collective, ranks, rankspernode, gpusperrank"
        mpi = {"nodes": 2, "ranks": 4, "ranksPerNode": 2, "gpusPerRank": 1}
        self.assert_right(table_of(rccl_rows(**mpi), heading), 4)
        del mpi["nodes"]
        self.assert_right(table_of(rccl_rows(**mpi), heading), 4)
        self.assert_right(table_of(rccl_rows(gpus=4), "collective, gpus"), 4, ["one host"])
        self.assert_refused(
            table_of(rccl_rows(gpus=4), "collective, gpus")[1:], "none of its lines"
        )
        mpi = {"nodes": 2, **mpi}
        self.assert_right(table_of(rccl_rows(**mpi), "Collective, nodes, " + heading[12:]), 4)
        spaceless = [line.replace(", ", ",") for line in table_of(rccl_rows(**mpi), heading)]
        self.assert_right(["HIP version: 6.4, ROCm: 6.4"] + spaceless, 4)
        self.assert_right(log(4) + ["a, b, c"], 4)


class StructuredTest(LogTest):
    def test_metas_documents_do_not_list_ranks(self):
        said = ["does not list all ranks, but busbw / algbw is"]
        self.assert_right(json.dumps(structured()), 4, said)
        self.assert_right(json.dumps([structured()], indent=1), 4, said)
        self.assert_refused(json.dumps(structured(root="0")), "with redop none or a root")

    def test_numbers_out_of_place_count_where_there_are_no_others(self):
        changed = structured()
        for one in changed["benchmark"]:
            (numbers,) = one.values()
            for name in ("time", "algbw", "busbw"):
                numbers[f"oop_{name}"] = numbers[f"ip_{name}"]
                numbers[f"ip_{name}"] = "N/A"
        self.assert_right(json.dumps(changed), 4, ["does not list"])


if __name__ == "__main__":
    unittest.main()
