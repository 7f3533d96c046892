"""cuda_library and cuda_test: nvcc for .cu files, the C++ rules for the rest, stubs where there is no toolkit.

Below an emulated_cuda_test (tests/cuda_emulation) both are built with emulated CUDA instead."""

load("@bazel_tools//tools/cpp:toolchain_utils.bzl", "find_cpp_toolchain")
load("@local_cuda//:defs.bzl", "ARCHITECTURES", "CUDA_MAJOR", "HAVE_CUDA", "HAVE_PART", "NVCC")
load("//tests/cuda_emulation:emulation.bzl", "emulated_cuda_test")

# Machine code for each architecture, and PTX of the last, which later GPUs compile for themselves.
_GENERATED_CODE = [
    "arch=compute_%d,code=sm_%d" % (number, number)
    for number in ARCHITECTURES
] + ["arch=compute_{0},code=compute_{0}".format((ARCHITECTURES or [80])[-1])]

_NVCC_FLAGS = [
    "-std=c++20",
    "-O3",
    "-ccbin=/usr/bin/g++",
    "--expt-relaxed-constexpr",
    "--extended-lambda",
    "-Werror=all-warnings",
    "-Xcompiler=-fPIC,-Wall,-Wextra,-Werror",
    # Temporary files take their names from the object's, not from the process.
    "--objdir-as-tempdir",
]

def _same_bytes_everywhere(source):
    """Flags for the names that nvcc gives to internal symbols: from the source's relative path, not from its
    absolute one and a random number."""
    flags = ["-Xcudafe", "--orig_src_path_name", "-Xcudafe", source.path]
    if CUDA_MAJOR >= 13:
        flags.append("--frandom-seed=" + source.path)
    return flags

def _cuda_objects_impl(ctx):
    toolchain = find_cpp_toolchain(ctx)
    features = cc_common.configure_features(
        ctx = ctx,
        cc_toolchain = toolchain,
        requested_features = ctx.features,
        unsupported_features = ctx.disabled_features,
    )
    context = cc_common.merge_cc_infos(cc_infos = [dep[CcInfo] for dep in ctx.attr.deps]).compilation_context

    flags = ctx.actions.args()
    flags.add_all(_NVCC_FLAGS)
    flags.add_all(_GENERATED_CODE, before_each = "-gencode")
    # nvcc takes a comma for the end of an option.
    flags.add_all([option.replace(",", "\\,") for option in ctx.fragments.cpp.copts], before_each = "-Xcompiler")
    flags.add_all(context.defines, before_each = "-D")
    flags.add_all(context.quote_includes, before_each = "-I")
    flags.add_all(context.includes, before_each = "-I")
    flags.add_all(context.system_includes, before_each = "-isystem")

    objects = []
    for source in ctx.files.srcs:
        object = ctx.actions.declare_file("_objs/%s/%s.o" % (ctx.label.name, source.basename))
        ctx.actions.run(
            executable = NVCC,
            arguments = [flags] + _same_bytes_everywhere(source) + ["-c", source.path, "-o", object.path],
            inputs = depset([source] + ctx.files.hdrs, transitive = [context.headers]),
            outputs = [object],
            mnemonic = "CudaCompile",
            progress_message = "Compiling %s with nvcc" % source.short_path,
            use_default_shell_env = True,
        )
        objects.append(object)

    compiled = cc_common.create_compilation_outputs(objects = depset(objects), pic_objects = depset(objects))
    linking_context, _ = cc_common.create_linking_context_from_compilation_outputs(
        actions = ctx.actions,
        name = ctx.label.name,
        feature_configuration = features,
        cc_toolchain = toolchain,
        compilation_outputs = compiled,
        linking_contexts = [dep[CcInfo].linking_context for dep in ctx.attr.deps],
        alwayslink = ctx.attr.alwayslink,
        disallow_dynamic_library = True,
    )
    return [
        DefaultInfo(files = depset(objects)),
        CcInfo(compilation_context = context, linking_context = linking_context),
    ]

_cuda_objects = rule(
    implementation = _cuda_objects_impl,
    attrs = {
        "alwayslink": attr.bool(),
        "deps": attr.label_list(providers = [CcInfo]),
        "hdrs": attr.label_list(allow_files = [".h", ".cuh"]),
        "srcs": attr.label_list(allow_files = [".cu"]),
        "_cc_toolchain": attr.label(default = "@bazel_tools//tools/cpp:current_cc_toolchain"),
    },
    fragments = ["cpp"],
    incompatible_use_toolchain_transition = True,
    toolchains = ["@bazel_tools//tools/cpp:toolchain_type"],
)

def _split(srcs):
    """(.cu files, other files)"""
    return [src for src in srcs if src.endswith(".cu")], [src for src in srcs if not src.endswith(".cu")]

def _select(emulated, otherwise):
    return select({
        "//tests/cuda_emulation:is_on": emulated,
        "//conditions:default": otherwise,
    })

def _parts(repository, requires):
    return [repository + ":" + part for part in ["cudart"] + requires]

def _is_missing(requires):
    return not HAVE_CUDA or [part for part in requires if not HAVE_PART[part]] != []

# For C++ sources that include a .cu file. A GPU ends a kernel that reads 16 bytes at another address than a multiple of
# 16; a trap does here.
_EMULATED_COPTS = [
    "-Wno-unknown-pragmas",
    "-Wno-subobject-linkage",
    "-fsanitize=alignment",
    "-fsanitize-undefined-trap-on-error",
]

# What there is an emulation of.
_EMULATED_PARTS = ["cublasLt", "cudnn", "nccl"]

def _emulated_sources(name, kernels):
    """C++ sources that stand for .cu files."""
    sources = []
    for kernel in kernels:
        source = "%s_emulated/%s.cc" % (name, kernel[:-len(".cu")])
        native.genrule(
            name = "%s_%s_emulated" % (name, kernel[:-len(".cu")]),
            outs = [source],
            cmd = "echo '#include \"%s/%s\"' > $@" % (native.package_name(), kernel),
            tags = ["manual"],
            visibility = ["//visibility:private"],
        )
        sources.append(source)
    return sources

def cuda_defines():
    """For `defines`: GRADSYNC_HAVE_CUDA and the same of its parts, 1 in a build that has them, else 0."""
    emulated, local = ["GRADSYNC_HAVE_CUDA=1"], ["GRADSYNC_HAVE_CUDA=%d" % int(HAVE_CUDA)]
    for part in ["cublasLt", "cudnn"]:
        define = "GRADSYNC_HAVE_%s=%%d" % part.upper()
        emulated.append(define % int(part in _EMULATED_PARTS))
        local.append(define % int(not _is_missing([part])))
    return _select(emulated, local)

def cuda_library(name, srcs, stub_srcs = [], hdrs = [], deps = [], requires = [], stub_deps = None, **kwargs):
    """A C++ library with .cu files among its sources; without its parts of CUDA, the same library from stubs.

    Args:
      name: the library.
      srcs: .cu files for nvcc, .cc files and private headers for the C++ compiler.
      stub_srcs: sources that define the same functions, each of which says "built without CUDA" when called.
        None for kernels, whose callers know by cuda_defines() that there is nothing to call.
      hdrs: public headers, the same for both; they name no CUDA type.
      deps: libraries that both need.
      requires: parts of @local_cuda that srcs use beside cudart: cublasLt, cudnn, cudnn_frontend,
        nccl, nvtx.
      stub_deps: dependencies of the stubs if not deps.
      **kwargs: visibility, tags and the like, for cc_library.
    """
    kernels, sources = _split(srcs)
    stub_deps = deps if stub_deps == None else stub_deps
    if _is_missing(requires):
        local_srcs, local_deps = stub_srcs, stub_deps
    else:
        local_srcs, local_deps = sources, deps + _parts("@local_cuda//", requires)
        if kernels:
            _cuda_objects(
                name = name + "_kernels",
                srcs = kernels,
                hdrs = hdrs + [source for source in sources if source.endswith(".h")],
                deps = local_deps + ["//third_party/cuda_launch"],
                visibility = ["//visibility:private"],
            )
            local_deps = local_deps + [":%s_kernels" % name]
    if [part for part in requires if part not in _EMULATED_PARTS]:
        emulated_srcs, emulated_deps = stub_srcs, stub_deps
    else:
        emulated_srcs = sources + _emulated_sources(name, kernels)
        emulated_deps = deps + _parts("//tests/cuda_emulation", requires)
    native.cc_library(
        name = name,
        srcs = _select(emulated_srcs, local_srcs),
        hdrs = hdrs,
        textual_hdrs = _select(kernels, []),
        copts = _select(_EMULATED_COPTS if kernels else [], []),
        deps = _select(emulated_deps, local_deps),
        **kwargs
    )

def cuda_test(
        name,
        srcs = None,
        deps = [],
        gpus = 1,
        requires = [],
        tags = [],
        emulated_size = None,
        emulated_args = [],
        **kwargs):
    """A GoogleTest program that needs GPUs: only `--config=gpu` runs it.

    Without a GPU, or its parts of CUDA, it fails with one line that says so.

    Args:
      name: the test.
      srcs: .cu and .cc files; NAME.cc unless given.
      deps: libraries under test; //third_party:gpu_test_main is added.
      gpus: how many GPUs of one machine it needs; with fewer it is skipped.
      requires: as in cuda_library.
      tags: further tags.
      emulated_size: of the same test on emulated CUDA, X_emulated_test for X_test and X_cuda_test; None: there is none.
      emulated_args: its arguments.
      **kwargs: size and the like, for cc_test.
    """
    kernels, sources = _split([name + ".cc"] if srcs == None else srcs)
    all_deps = deps + ["//third_party:gpu_test_main"]
    local_srcs, local_deps = sources, all_deps + _parts("@local_cuda//", requires)
    if _is_missing(requires):
        local_srcs, local_deps = [], ["//third_party:built_without_cuda_test"]
    elif kernels:
        _cuda_objects(
            name = name + "_kernels",
            testonly = True,
            srcs = kernels,
            alwayslink = True,  # TEST registers itself; nothing refers to it
            deps = local_deps,
            tags = ["manual"],
            visibility = ["//visibility:private"],
        )
        local_deps = local_deps + [":%s_kernels" % name]
    native.cc_test(
        name = name,
        srcs = _select(sources, local_srcs),
        args = ["--gpus=%d" % gpus],
        tags = tags + ["gpu", "requires-gpu-nvidia" + (":%d" % gpus if gpus > 1 else "")],
        deps = _select(all_deps + _parts("//tests/cuda_emulation", []), local_deps),
        **kwargs
    )
    if emulated_size != None:
        suffix = "_cuda_test" if name.endswith("_cuda_test") else "_test"
        emulated_cuda_test(
            name = name[:-len(suffix)] + "_emulated_test",
            size = emulated_size,
            args = emulated_args,
            test = ":" + name,
        )
