#include "bench/records/provenance.h"

#include <gloo/config.h>
#include <oneapi/dnnl/dnnl.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <eigen3/Eigen/Core>
#include <iterator>

#include "bench/records/build_stamp.h"
#include "bench/records/host.h"
#include "model/base/error.h"

namespace gradsync::bench {
namespace {

std::string Compiler() {
#ifdef __clang__
  return "clang " __clang_version__;
#else
  return "gcc " __VERSION__;
#endif
}

std::string BuildMode() {
#ifdef NDEBUG
  std::string mode = "opt";
#else
  std::string mode = "dbg";
#endif
#ifdef __SANITIZE_ADDRESS__
  mode += "+asan";
#endif
#ifdef __SANITIZE_THREAD__
  mode += "+tsan";
#endif
  return mode;
}

}  // namespace

std::string Quoted(std::string_view argument) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=,./:@%";
  if (!argument.empty() && argument.find_first_not_of(kPlain) == std::string_view::npos)
    return std::string(argument);
  std::string quoted = "'";
  for (const char c : argument) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

// The linker prefers the definition in :build_stamp.
[[gnu::weak]] const char* BuildStamp() { return "unknown-dirty"; }

void SetCommit(std::string_view stamp, Provenance& provenance) {
  provenance.gradsync_commit = stamp.substr(0, stamp.find('-'));
  provenance.dirty = stamp.ends_with("-dirty");
}

Provenance CollectProvenance(int argc, const char* const* argv) {
  Provenance provenance;
  SetCommit(BuildStamp(), provenance);
  utsname system{};
  if (uname(&system) == 0) {
    provenance.host = system.nodename;
    provenance.kernel = Join(system.sysname, " ", system.release);
  }
  provenance.os = ReadEntry("/etc/os-release", "PRETTY_NAME", "=\"");
  provenance.cpu_model = ReadEntry("/proc/cpuinfo", "model name", ":\t ");
  provenance.cpu_count = std::ssize(AllowedCpus());
  provenance.memory_bytes = int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGE_SIZE);
  provenance.compiler = Compiler();
  provenance.build = BuildMode();
  const dnnl_version_t* onednn = dnnl_version();
  provenance.libraries.Set("gloo",
                           Join(GLOO_VERSION_MAJOR, ".", GLOO_VERSION_MINOR, ".", GLOO_VERSION_PATCH));
  provenance.libraries.Set("onednn", Join(onednn->major, ".", onednn->minor, ".", onednn->patch));
  provenance.libraries.Set("eigen",
                           Join(EIGEN_WORLD_VERSION, ".", EIGEN_MAJOR_VERSION, ".", EIGEN_MINOR_VERSION));
  for (int i = 0; i < argc; ++i) {
    if (i > 0) provenance.command_line += " ";
    provenance.command_line += Quoted(argv[i]);
  }
  return provenance;
}

}  // namespace gradsync::bench
