#include "bench/launch/tools.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "bench/records/provenance.h"
#include "model/base/error.h"
#include "tools/cpp/runfiles/runfiles.h"

namespace gradsync::bench {
namespace {

using bazel::tools::cpp::runfiles::Runfiles;

std::unique_ptr<Runfiles> FindRunfiles(const char* argv0, const std::string& what) {
  std::string error;
  std::unique_ptr<Runfiles> runfiles(Runfiles::Create(argv0, &error));
  Require(runfiles != nullptr, "cannot find ", what, ": ", error);
  return runfiles;
}

std::string Summarize(const char* argv0) { return RunfilePath(argv0, "tools/summarize"); }

}  // namespace

std::string RunfilePath(const char* argv0, const std::string& file, bool executable) {
  std::string path = FindRunfiles(argv0, file)->Rlocation("gradsync/" + file);
  const bool is_usable = access(path.c_str(), executable ? X_OK : R_OK) == 0;
  const std::string reason = std::strerror(errno);
  Require(is_usable, "cannot ", executable ? "run " : "read ", path, ": ", reason);
  return path;
}

comm::EnvironmentChanges RunfilesEnvironment(const char* argv0) {
  comm::EnvironmentChanges environment;
  const std::unique_ptr<Runfiles> runfiles = FindRunfiles(argv0, "data files");
  for (const auto& [name, value] : runfiles->EnvVars()) environment[name] = value;
  return environment;
}

Command AnswerCommand(const char* argv0, const std::string& records, const std::string& set) {
  Command command = {Summarize(argv0), records, "--format=screen"};
  if (!set.empty()) command.push_back("--run=" + set);
  return command;
}

Command TablesCommand(const char* argv0, const std::string& records, const std::string& format,
                      const std::string& file) {
  return {Summarize(argv0), records, "--format=" + format, "--out=" + file};
}

Command PrecisionCommand(const char* argv0, const std::string& records, double precision) {
  return {Summarize(argv0), records, Join("--precision=", 100 * precision, "%")};
}

Command ChoiceCommand(const char* argv0, const std::string& records, const std::string& set) {
  return {Summarize(argv0), records, "--format=choice", "--run=" + set};
}

Command ReportCommand(const char* argv0, const std::string& records, const std::string& file) {
  return {RunfilePath(argv0, "tools/report"), records, "--out=" + file};
}

std::string TypedAnswer(const std::string& records) {
  return Join("./bazelw run //tools:summarize -- ", Quoted(records), " --format=screen");
}

std::string TypedNext(const std::string& records) {
  return Join("Next: ./bazelw run //tools:report -- ", Quoted(records),
              " --out=report.html, or //tools:summarize with --details");
}

}  // namespace gradsync::bench
