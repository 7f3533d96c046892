"""Repository rule for Open MPI: @mpi says whether this machine has it. A missing one never fails."""

def _mpi_configure_impl(ctx):
    home = ctx.os.environ.get("MPI_HOME", "")
    compiler = ctx.path(home + "/bin/mpicc") if home else ctx.which("mpicc")
    dirs = {}
    for kind in ["incdirs", "libdirs"]:
        shown = ctx.execute([compiler, "--showme:" + kind]) if compiler != None and compiler.exists else None
        if shown != None and shown.return_code == 0:
            dirs[kind] = shown.stdout.strip().split(" ")[0]
    found = len(dirs) == 2 and ctx.path(dirs["incdirs"] + "/mpi.h").exists
    if found:
        ctx.symlink(dirs["incdirs"], "include")
    ctx.file("defs.bzl", "HAVE_MPI = %r\n" % found)
    ctx.template("BUILD", ctx.attr.build_file, {
        "%{linkopts}": repr(["-L" + dirs["libdirs"], "-Wl,-rpath," + dirs["libdirs"], "-lmpi"] if found else []),
    })

# By its mpicc: MPI_HOME/bin/mpicc if MPI_HOME is set, else the first in PATH.
mpi_configure = repository_rule(
    implementation = _mpi_configure_impl,
    configure = True,
    environ = [
        "GRADSYNC_INSTALLED",
        "MPI_HOME",
        "PATH",
    ],
    local = True,
    attrs = {"build_file": attr.label(mandatory = True, doc = "Template of the repository's BUILD file.")},
)
