#include "bench/launch/tools.h"

#include "bench/launch/runfile.h"
#include "bench/records/provenance.h"
#include "model/base/error.h"

namespace gradsync::bench {
namespace {

std::string Summarize(const char* argv0) { return RunfilePath(argv0, "tools/summarize"); }

}  // namespace

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
              ", or //tools:summarize with --details");
}

}  // namespace gradsync::bench
