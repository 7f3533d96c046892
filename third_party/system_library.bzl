"""Repository rule for a library that the system's package manager installed."""

_HEADER_ROOTS = ["/usr/include", "/usr/local/include"]
_LIBRARY_ROOTS = ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib"]

def _linkopts(ctx):
    """Options that link those of the system's shared libraries named libraries* that are used, in any release."""
    if not ctx.attr.libraries:
        return []
    names = []
    for root in _LIBRARY_ROOTS:
        if ctx.path(root).exists and not names:
            for file in ctx.path(root).readdir():
                if file.basename.startswith("lib" + ctx.attr.libraries) and file.basename.endswith(".so"):
                    names.append("-l" + file.basename[len("lib"):-len(".so")])
    return ["-Wl,--push-state,--as-needed"] + sorted(names) + ["-Wl,--pop-state"]

def _system_library_impl(ctx):
    for root in _HEADER_ROOTS:
        if ctx.path(root + "/" + ctx.attr.header).exists:
            # Headers below /usr/include are on the compiler's own path, and no input of an action.
            for adapter, line in ctx.attr.adapters.items():
                if line in ctx.read(root + "/" + ctx.attr.header).splitlines():
                    ctx.symlink(adapter, "include/" + adapter.name.split("/")[-1])
            ctx.template("BUILD", ctx.attr.build_file, {"%{linkopts}": str(_linkopts(ctx))})
            return
    fail("%s is missing: run ./bazelw once, or apt-get install %s" % (ctx.name, ctx.attr.debian_package))

system_library = repository_rule(
    implementation = _system_library_impl,
    local = True,
    attrs = {
        "adapters": attr.label_keyed_string_dict(doc = "Headers to export in 'include', each where 'header' has that line: " +
                                                       "they stand before the library's own of the same name."),
        "build_file": attr.label(mandatory = True, doc = "The repository's BUILD file."),
        "debian_package": attr.string(mandatory = True, doc = "What to install when the header is missing."),
        "header": attr.string(mandatory = True, doc = "A header, relative to /usr/include, that proves the library is there."),
        "libraries": attr.string(doc = "Prefix of the shared libraries to link, without 'lib': the file's %{linkopts}."),
    },
)
