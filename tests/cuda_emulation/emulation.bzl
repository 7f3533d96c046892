"""emulated_cuda_test: a cuda_test, on the host."""

def _bool_setting_impl(_ctx):
    return []

bool_setting = rule(
    implementation = _bool_setting_impl,
    build_setting = config.bool(flag = False),
)

_SETTING = "//tests/cuda_emulation:emulate_cuda"

def _emulate(_settings, _attr):
    return {_SETTING: True}

_emulated = transition(
    implementation = _emulate,
    inputs = [],
    outputs = [_SETTING],
)

def _emulated_cuda_test_impl(ctx):
    test = ctx.attr.test[0][DefaultInfo]
    program = ctx.actions.declare_file(ctx.label.name)
    ctx.actions.symlink(
        output = program,
        target_file = test.files_to_run.executable,
        is_executable = True,
    )
    return [DefaultInfo(executable = program, runfiles = test.default_runfiles)]

_emulated_cuda_test = rule(
    implementation = _emulated_cuda_test_impl,
    attrs = {
        "test": attr.label(cfg = _emulated, executable = True, mandatory = True, doc = "The cuda_test."),
        "_allowlist_function_transition": attr.label(
            default = "@bazel_tools//tools/allowlists/function_transition_allowlist",
        ),
    },
    test = True,
)

def emulated_cuda_test(name, test, tags = [], **kwargs):
    """The same program as a cuda_test, built with emulated CUDA.

    It needs neither a GPU nor the toolkit, and so is an ordinary test.

    Args:
      name: the test.
      test: the cuda_test.
      tags: further tags.
      **kwargs: size and the like, as of every test; args are not those of the cuda_test.
    """
    _emulated_cuda_test(
        name = name,
        test = test,
        tags = tags + ["no-tsan"],  # which does not follow fibers through a fault
        **kwargs
    )
