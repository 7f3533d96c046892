"""Targets that take any bytes."""

def fuzz_test(name, srcs, corpus, deps = []):
    """A function LLVMFuzzerTestOneInput, beside the parser that it feeds.

    As a test it gets the files of tests/fuzz/corpus/<corpus>, whole and damaged (replay.cc). With
    --config=fuzz it is a libFuzzer program instead: tools/dev/fuzz.sh.

    Args:
      name: of the test.
      srcs: its sources.
      corpus: the folder of its inputs.
      deps: what it needs beside //tests/fuzz.
    """
    native.cc_test(
        name = name,
        size = "small",
        srcs = srcs,
        args = ["tests/fuzz/corpus/" + corpus],
        data = ["//tests/fuzz:corpus/" + corpus],
        linkopts = select({
            "//tests/fuzz:fuzzing": ["-fsanitize=fuzzer"],
            "//conditions:default": [],
        }),
        tags = ["fuzz"],
        deps = deps + ["//tests/fuzz"] + select({
            "//tests/fuzz:fuzzing": [],
            "//conditions:default": ["//tests/fuzz:replay"],
        }),
    )
