"""Repository rule for the CUDA toolkit: @local_cuda says what this machine offers. A missing part never fails."""

# What nvcc needs to know C++20.
_OLDEST_CUDA = 12

_LIBRARY_DIRS = ["/usr/lib/x86_64-linux-gnu", "/usr/lib64"]
_INCLUDE_DIRS = ["/usr/include", "/usr/include/x86_64-linux-gnu"]

def _defined_number(text, macro):
    """The value of `#define macro number` in a header, or None."""
    for line in text.split("\n"):
        words = [word for word in line.replace("\t", " ").split(" ") if word]
        if len(words) >= 3 and words[0] == "#define" and words[1] == macro and words[2].isdigit():
            return int(words[2])
    return None

def _version(ctx, header, macros):
    text = ctx.read(header)
    return ".".join([str(_defined_number(text, macro)) for macro in macros])

def _first_with(ctx, dirs, name):
    """The first of the directories that has a file of this name, or None."""
    for dir in dirs:
        if ctx.path(dir).get_child(name).exists:
            return dir
    return None

def _find_toolkit(ctx):
    """(root, release), where root is None if there is no usable toolkit, and release tells why."""
    root = ctx.os.environ.get("CUDA_HOME", "/usr/local/cuda")
    header = ctx.path(root + "/include/cuda_runtime_api.h")
    if not ctx.path(root + "/bin/nvcc").exists or not header.exists:
        return None, "no CUDA toolkit in %s (CUDA_HOME names another place)" % root
    number = _defined_number(ctx.read(header), "CUDART_VERSION")
    release = "%d.%d" % (number // 1000, number % 1000 // 10)
    if number // 1000 < _OLDEST_CUDA:
        return None, "CUDA %s in %s is older than %d.0" % (release, root, _OLDEST_CUDA)
    return root, release

def _find_part(ctx, root, header, library):
    """The linkopts of a library of the toolkit or of the system, or None if it or its header is missing."""
    if _first_with(ctx, [root + "/include"] + _INCLUDE_DIRS, header) == None:
        return None
    dir = _first_with(ctx, [root + "/lib64"] + _LIBRARY_DIRS, "lib%s.so" % library)
    if dir == None:
        return None
    if dir in _LIBRARY_DIRS:
        return ["-l" + library]
    return ["-L" + dir, "-Wl,-rpath," + dir, "-l" + library]

def _architectures(ctx):
    """What to compile kernels for: what CUDA_ARCHITECTURES says ("80,90"), else what GPUs this machine has. [] without one."""
    given = ctx.os.environ.get("CUDA_ARCHITECTURES", "")
    if given == "" and ctx.which("nvidia-smi") != None:
        asked = ctx.execute(["nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader"], timeout = 20)
        if asked.return_code == 0:
            given = ",".join([line.replace(".", "") for line in asked.stdout.split("\n")])
    names = {name.strip(): None for name in given.split(",") if name.strip()}
    for name in names:
        if not name.isdigit() or int(name) < 80:
            fail("CUDA_ARCHITECTURES=%s: expected numbers from 80 on, separated by commas, such as 80,90" % given)
    return sorted([int(name) for name in names])

def _cuda_configure_impl(ctx):
    root, release = _find_toolkit(ctx)
    architectures = _architectures(ctx) if root != None else []
    if root != None and not architectures:
        root, release = None, "CUDA %s in %s, but no GPU here and no CUDA_ARCHITECTURES=90, say, to compile for" % (release, root)
    parts = {"cublasLt": None, "cudart": None, "cudnn": None, "cudnn_frontend": None, "nccl": None, "nvtx": None}
    if root == None:
        summary = release + ": GPU targets become stubs"
    else:
        ctx.symlink(root + "/include", "include")
        parts["cudart"] = _find_part(ctx, root, "cuda_runtime_api.h", "cudart")
        parts["cublasLt"] = _find_part(ctx, root, "cublasLt.h", "cublasLt")
        parts["cudnn"] = _find_part(ctx, root, "cudnn.h", "cudnn")
        frontend = _first_with(ctx, [ctx.os.environ.get("CUDNN_FRONTEND", root + "/include")], "cudnn_frontend.h")
        nvrtc = _find_part(ctx, root, "nvrtc.h", "nvrtc")  # which the frontend calls
        if parts["cudnn"] != None and frontend != None and nvrtc != None:
            ctx.symlink(frontend, "cudnn_frontend/include")
            parts["cudnn_frontend"] = nvrtc
        parts["nccl"] = _find_part(ctx, root, "nccl.h", "nccl")
        if ctx.path(root + "/include/nvtx3/nvToolsExt.h").exists:
            parts["nvtx"] = ["-ldl"]  # headers alone

        includes = [root + "/include"] + _INCLUDE_DIRS
        versions = {name: "" for name in parts}
        for name, header, macros in [
            ("cudnn", "cudnn_version.h", ["CUDNN_MAJOR", "CUDNN_MINOR", "CUDNN_PATCHLEVEL"]),
            ("nccl", "nccl.h", ["NCCL_MAJOR", "NCCL_MINOR", "NCCL_PATCH"]),
        ]:
            dir = _first_with(ctx, includes, header)
            if parts[name] != None and dir != None:
                versions[name] = " " + _version(ctx, dir + "/" + header, macros)
        summary = "CUDA %s in %s" % (release, root)
        for name, title in [("cublasLt", "cuBLASLt"), ("cudnn", "cuDNN"), ("cudnn_frontend", "cuDNN's frontend"), ("nccl", "NCCL"), ("nvtx", "NVTX")]:
            summary += ", " + ("no " + title if parts[name] == None else title + versions[name])
        summary += ", for sm_" + ", sm_".join([str(number) for number in architectures])
    print(summary)

    ctx.file("defs.bzl", "\n".join([
        '"""What @local_cuda found when Bazel looked."""',
        "",
        "NVCC = %r" % (root + "/bin/nvcc" if root != None else ""),
        "HAVE_PART = %r" % {name: linkopts != None for name, linkopts in parts.items()},
        "HAVE_CUDA = %r" % (parts["cudart"] != None),
        "ARCHITECTURES = %r" % architectures,
        "CUDA_MAJOR = %d" % (int(release.split(".")[0]) if root != None else 0),
        "",
    ]))
    ctx.template("BUILD", ctx.attr.build_file, substitutions = {
        "%%{%s}" % name: repr(linkopts or [])
        for name, linkopts in parts.items()
    })

cuda_configure = repository_rule(
    implementation = _cuda_configure_impl,
    configure = True,
    environ = [
        "CUDA_ARCHITECTURES",
        "CUDA_HOME",
        "CUDNN_FRONTEND",
        "GRADSYNC_INSTALLED",
    ],
    local = True,
    attrs = {
        "build_file": attr.label(mandatory = True, doc = "Template of the repository's BUILD file."),
    },
)

def _constant_setting_impl(_ctx):
    return []

# A boolean that nobody sets: what the repository rule found, in a form that config_setting can ask for.
constant_setting = rule(
    implementation = _constant_setting_impl,
    build_setting = config.bool(flag = False),
)
