"""Which Bazel builds this workspace. MODULE.bazel stops those that do not read WORKSPACE."""

def check_bazel_version():
    # Debian's and Ubuntu's own build of 4.2.3 states no version.
    version = native.bazel_version or "4.2.3"
    if not version.startswith("4."):
        fail("gradsync is built with Bazel 4.2, not %s: ./bazelw installs and runs Debian's and Ubuntu's bazel-bootstrap" % version)
