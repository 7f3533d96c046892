#pragma once

#include <string>
#include <vector>

#include "comm/processes/child_process.h"

// The command lines of the tools that read records. The tools are separate programs, so that a crash or a
// timeout of a tool does not affect the measurement.
namespace gradsync::bench {

using Command = std::vector<std::string>;

// Returns the path of a data file of the program `argv0` under Bazel: "bench/ddp". Throws InvalidInput if the
// file does not exist or cannot be executed, or, unless `executable`, cannot be read.
std::string RunfilePath(const char* argv0, const std::string& file, bool executable = true);

// Returns the variables with which a program that `argv0` starts finds the data files of `argv0`. Bazel makes
// no directory of data files for a program that is itself only a data file. Throws InvalidInput if `argv0`
// has no data files.
comm::EnvironmentChanges RunfilesEnvironment(const char* argv0);

// These functions return commands that run //tools:summarize from the runfiles of the program `argv0`. The
// functions throw InvalidInput if //tools:summarize is missing.
//
// Prints the results of a directory of records on one screen. `set` selects launches.
Command AnswerCommand(const char* argv0, const std::string& records, const std::string& set = "");
// Writes all tables into a file. `format`: "markdown", "csv" or "json".
Command TablesCommand(const char* argv0, const std::string& records, const std::string& format,
                      const std::string& file);
// Exits with kNo unless all intervals of the latest launches are within +- `precision` of the baseline's
// step.
Command PrecisionCommand(const char* argv0, const std::string& records, double precision);
// Prints the flags of the launches that follow a choosing launch (--choose), and a line with the fastest row.
Command ChoiceCommand(const char* argv0, const std::string& records, const std::string& set);
// Runs //tools:report, which writes a page of figures, and exits with kLacking without matplotlib. Throws
// InvalidInput if //tools:report is missing.
Command ReportCommand(const char* argv0, const std::string& records, const std::string& file);

// Return commands that users can type in the workspace. TypedAnswer returns the command that prints the
// screen again, and TypedNext the commands that print the tables and make the report.
std::string TypedAnswer(const std::string& records);
std::string TypedNext(const std::string& records);

}  // namespace gradsync::bench
