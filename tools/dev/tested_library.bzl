"""tested_library: a library and the test beside it."""

def tested_library(
        name,
        srcs = None,
        hdrs = None,
        deps = [],
        test_deps = [],
        test_data = [],
        test_size = "small",
        **kwargs):
    """NAME.cc and NAME.h as cc_library NAME, and NAME_test.cc as cc_test NAME_test.

    The test may include what the library depends on; test_deps is what it needs besides, without GoogleTest."""
    native.cc_library(
        name = name,
        srcs = [name + ".cc"] if srcs == None else srcs,
        hdrs = [name + ".h"] if hdrs == None else hdrs,
        deps = deps,
        **kwargs
    )
    native.cc_test(
        name = name + "_test",
        size = test_size,
        srcs = [name + "_test.cc"],
        data = test_data,
        deps = [":" + name, "@googletest//:gtest_main"] + deps + test_deps,
    )
