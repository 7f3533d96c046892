"""Repository rule for a library that the system's package manager installed."""

_HEADER_ROOTS = ["/usr/include", "/usr/local/include"]

def _system_library_impl(ctx):
    for root in _HEADER_ROOTS:
        if ctx.path(root + "/" + ctx.attr.header).exists:
            # Headers below /usr/include are on the compiler's own path; exporting that directory would
            # break #include_next. Only a subdirectory such as eigen3 is linked in.
            if ctx.attr.include_dir:
                ctx.symlink(root + "/" + ctx.attr.include_dir, "include")
            for adapter, line in ctx.attr.adapters.items():
                if line in ctx.read(root + "/" + ctx.attr.header).splitlines():
                    ctx.symlink(adapter, "include/" + adapter.name.split("/")[-1])
            ctx.symlink(ctx.attr.build_file, "BUILD")
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
        "include_dir": attr.string(doc = "Subdirectory of /usr/include to export as 'include'."),
    },
)
