"""Headers that many sources begin with, parsed once.

g++ reads a precompiled header in place of the header where it fits, and the header itself where it does not: other
options cost time, and change nothing."""

load("@bazel_tools//tools/cpp:toolchain_utils.bzl", "find_cpp_toolchain")

def _precompiled_header_impl(ctx):
    toolchain = find_cpp_toolchain(ctx)
    features = cc_common.configure_features(
        ctx = ctx,
        cc_toolchain = toolchain,
        requested_features = ctx.features,
        unsupported_features = ctx.disabled_features,
    )
    header = ctx.actions.declare_file("%s/%s.h" % (ctx.label.name, ctx.label.name))
    precompiled = ctx.actions.declare_file(header.basename + ".gch", sibling = header)
    ctx.actions.write(header, "".join(["#include <%s>\n" % include for include in ctx.attr.includes]))

    # As the C++ rules compile a source that is all of this.
    variables = cc_common.create_compile_variables(
        feature_configuration = features,
        cc_toolchain = toolchain,
        source_file = header.path,
        output_file = precompiled.path,
        user_compile_flags = ctx.fragments.cpp.copts + ctx.fragments.cpp.cxxopts + ctx.attr.copts + ["-x", "c++-header"],
        use_pic = True,
    )

    # g++ 12 ends with an internal error where it instruments code from a precompiled header, and clang refuses g++'s.
    instrumented = any([option.startswith("-fsanitize") for option in ctx.fragments.cpp.copts])
    headers = [header] if instrumented else [header, precompiled]
    ctx.actions.run(
        executable = cc_common.get_tool_for_action(feature_configuration = features, action_name = "c++-compile"),
        arguments = cc_common.get_memory_inefficient_command_line(
            feature_configuration = features,
            action_name = "c++-compile",
            variables = variables,
        ),
        inputs = depset([header], transitive = [toolchain.all_files]),
        outputs = [precompiled],
        mnemonic = "PrecompileHeader",
        progress_message = "Precompiling %s" % header.short_path,
        use_default_shell_env = True,
    )
    return CcInfo(compilation_context = cc_common.create_compilation_context(
        headers = depset(headers),
        system_includes = depset([header.dirname]),
    ))

precompiled_header = rule(
    implementation = _precompiled_header_impl,
    attrs = {
        "copts": attr.string_list(doc = "Options of the sources besides those on the command line."),
        "includes": attr.string_list(doc = "Headers of the system, such as vector."),
        "_cc_toolchain": attr.label(default = "@bazel_tools//tools/cpp:current_cc_toolchain"),
    },
    doc = "NAME.h, for -include NAME.h in what depends on it.",
    fragments = ["cpp"],
    incompatible_use_toolchain_transition = True,
    toolchains = ["@bazel_tools//tools/cpp:toolchain_type"],
)
