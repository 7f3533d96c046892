"""A wheel, whose name says for which systems it is, in a directory: its name is known when its program has been built."""

def _wheel_impl(ctx):
    out = ctx.actions.declare_directory(ctx.label.name)
    ctx.actions.run(
        executable = ctx.executable._make,
        arguments = [ctx.executable._zipper.path, out.path, ctx.executable.program.path] + [f.path for f in ctx.files.srcs],
        inputs = [ctx.executable.program] + ctx.files.srcs,
        tools = [ctx.executable._zipper],
        outputs = [out],
        mnemonic = "Wheel",
        use_default_shell_env = True,
    )
    return [DefaultInfo(files = depset([out]), runfiles = ctx.runfiles([out]))]

wheel = rule(
    implementation = _wheel_impl,
    attrs = {
        "program": attr.label(executable = True, cfg = "target", doc = "Becomes gradsync/what_if."),
        "srcs": attr.label_list(allow_files = [".py"], doc = "Files of the package gradsync."),
        "_make": attr.label(default = ":make_wheel.sh", executable = True, cfg = "exec", allow_single_file = True),
        "_zipper": attr.label(default = "@bazel_tools//tools/zip:zipper", executable = True, cfg = "exec", allow_single_file = True),
    },
)
