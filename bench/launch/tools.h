#ifndef GRADSYNC_BENCH_LAUNCH_TOOLS_H_
#define GRADSYNC_BENCH_LAUNCH_TOOLS_H_

#include <string>
#include <vector>

// The command lines of the tools that read records. The tools are programs of their own: one may crash or be
// late without taking the measurement along.
namespace gradsync::bench {

using Command = std::vector<std::string>;

// //tools:summarize, found where Bazel put it for the program that `argv0` names. Throws InvalidInput if it
// is not there.
//
// Prints what was found in a directory of records on one screen; `set`: of these launches alone.
Command AnswerCommand(const char* argv0, const std::string& records, const std::string& set = "");
// Writes all tables into a file. `format`: "markdown", "csv" or "json".
Command TablesCommand(const char* argv0, const std::string& records, const std::string& format,
                      const std::string& file);
// Ends with kNo unless all intervals of the latest launches are within +- this part of the baseline's step.
Command PrecisionCommand(const char* argv0, const std::string& records, double precision);
// //tools:report, likewise, which writes a page of figures; kLacking: without matplotlib.
Command ReportCommand(const char* argv0, const std::string& records, const std::string& file);

// Lines for people, who type them in the workspace: the answer's command, and what else there is.
std::string TypedAnswer(const std::string& records);
std::string TypedNext(const std::string& records);

}  // namespace gradsync::bench

#endif  // GRADSYNC_BENCH_LAUNCH_TOOLS_H_
