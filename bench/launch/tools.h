#ifndef GRADSYNC_BENCH_LAUNCH_TOOLS_H_
#define GRADSYNC_BENCH_LAUNCH_TOOLS_H_

#include <string>
#include <vector>

// The command lines of the tools that read records. The tools are separate programs, so that a crash or a
// timeout of a tool does not affect the measurement.
namespace gradsync::bench {

using Command = std::vector<std::string>;

// These commands run //tools:summarize from the runfiles of the program `argv0`. They throw InvalidInput if
// it is missing.
//
// Prints the results of a directory of records on one screen; `set`: only of these launches.
Command AnswerCommand(const char* argv0, const std::string& records, const std::string& set = "");
// Writes all tables into a file. `format`: "markdown", "csv" or "json".
Command TablesCommand(const char* argv0, const std::string& records, const std::string& format,
                      const std::string& file);
// Exits with kNo unless all intervals of the latest launches are within +- `precision` of the baseline's
// step.
Command PrecisionCommand(const char* argv0, const std::string& records, double precision);
// Prints the flags of the launches that follow a choosing one (--choose), and a line that says who leads.
Command ChoiceCommand(const char* argv0, const std::string& records, const std::string& set);
// Runs //tools:report, which writes a page of figures; exits with kLacking without matplotlib. Throws
// InvalidInput if it is missing.
Command ReportCommand(const char* argv0, const std::string& records, const std::string& file);

// Commands for people to type in the workspace: the command for the answer, and for other outputs.
std::string TypedAnswer(const std::string& records);
std::string TypedNext(const std::string& records);

}  // namespace gradsync::bench

#endif  // GRADSYNC_BENCH_LAUNCH_TOOLS_H_
