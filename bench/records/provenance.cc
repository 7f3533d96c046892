#include "bench/records/provenance.h"

#include <gloo/config.h>
#include <oneapi/dnnl/dnnl.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <eigen3/Eigen/Core>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "bench/records/host.h"
#include "comm/processes/run_command.h"
#include "model/error.h"

namespace gradsync::bench {
namespace {

// In a form that a shell takes back.
std::string Quoted(std::string_view argument) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=,./:@%";
  if (!argument.empty() && argument.find_first_not_of(kPlain) == std::string_view::npos) {
    return std::string(argument);
  }
  std::string quoted = "'";
  for (const char c : argument) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

// Of git in a directory; nullopt if it fails, or takes longer than provenance is worth waiting for.
std::optional<std::string> OutputOfGit(const std::string& directory,
                                       const std::vector<std::string>& arguments) {
  std::vector<std::string> command = {"git", "-C", directory};
  command.insert(command.end(), arguments.begin(), arguments.end());
  try {
    const comm::CommandResult git = comm::RunCommand(command, std::chrono::seconds(10));
    return git.ok() ? std::optional(git.output) : std::nullopt;
  } catch (const std::system_error&) {
    return std::nullopt;  // there is no git
  }
}

void FillCommit(Provenance& provenance) {
  provenance.dirty = true;
  if (const char* const gathered = std::getenv("GRADSYNC_COMMIT")) {
    const std::string_view text = gathered;
    provenance.gradsync_commit = text.substr(0, text.find('-'));
    provenance.dirty = text.ends_with("-dirty");
    return;
  }
  std::error_code error;
  const char* const workspace = std::getenv("BUILD_WORKSPACE_DIRECTORY");
  const std::string sources =
      workspace != nullptr ? std::string(workspace)
                           : SourcesOf(std::filesystem::read_symlink("/proc/self/exe", error).string());
  if (sources.empty()) return;
  const std::optional<std::string> commit = OutputOfGit(sources, {"rev-parse", "HEAD"});
  if (!commit.has_value()) return;
  provenance.gradsync_commit = commit->substr(0, commit->find('\n'));
  const std::optional<std::string> changes = OutputOfGit(sources, {"status", "--porcelain"});
  provenance.dirty = !changes.has_value() || !changes->empty();
}

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

std::string SourcesOf(const std::string& program) {
  const std::filesystem::path path = program;
  for (std::filesystem::path at = path.parent_path(); at.has_relative_path(); at = at.parent_path()) {
    std::string sources;
    std::ifstream note(at / "DO_NOT_BUILD_HERE");
    if (std::getline(note, sources)) return sources;
  }
  return "";
}

Provenance CollectProvenance(int argc, const char* const* argv) {
  Provenance provenance;
  FillCommit(provenance);
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
