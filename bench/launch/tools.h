#pragma once

#include <string>
#include <vector>

#include "comm/processes/child_process.h"

// Declares functions that find files in Bazel's runfiles, and functions that make command lines for programs
// that read a benchmark's records.
namespace gradsync::bench {

using Command = std::vector<std::string>;

// Returns the path of `file` (such as "bench/ddp") in the runfiles that Bazel made for the program `argv0`.
// Throws InvalidInput if the file cannot be executed (`executable` is true) or read (`executable` is false).
std::string RunfilePath(const char* argv0, const std::string& file, bool executable = true);

// Returns environment variables with which a child process finds its files in the runfiles of the program
// `argv0`. Throws InvalidInput if `argv0` has no runfiles.
comm::EnvironmentChanges RunfilesEnvironment(const char* argv0);

// The five functions whose names end with Command return a command line (the program and its arguments) of
// //tools:summarize or //tools:report. The tool reads the records of a benchmark in the directory `records`.
// The functions throw InvalidInput if the runfiles of the program `argv0` lack the tool.

// Returns the command line with which //tools:summarize prints a summary of the results on one screen. If
// `set` is not empty, the summary has only the launches whose LaunchId::set is `set`.
Command AnswerCommand(const char* argv0, const std::string& records, const std::string& set = "");
// Returns the command line with which //tools:summarize writes tables of results into `file`. `format` is
// "markdown", "csv", "latex" or "json".
Command TablesCommand(const char* argv0, const std::string& records, const std::string& format,
                      const std::string& file);
// Returns the command line with which //tools:summarize checks the confidence intervals of step-time
// differences in the newest set of launches. //tools:summarize exits with status 3 (kNo) if an interval's
// half-width is unknown or exceeds `precision`, or without any interval. `precision` and half-widths are
// fractions of the baseline's step time (without a baseline: of the time of a step without communication).
Command PrecisionCommand(const char* argv0, const std::string& records, double precision);
// Returns the command line with which //tools:summarize chooses what a benchmark with --choose measures after
// its first launch (start of all ranks). //tools:summarize reads the records of the set of launches `set`,
// and prints the flags --variants and --steps for later launches. On a second line, //tools:summarize names
// the fastest variant with exact gradients, if known, for each setting and baseline.
Command ChoiceCommand(const char* argv0, const std::string& records, const std::string& set);
// Returns the program //tools:report and the arguments with which it writes an HTML page of tables and
// figures into `file`. The name of `file` must end in ".html". The program exits with status kLacking if
// Python's matplotlib is missing.
Command ReportCommand(const char* argv0, const std::string& records, const std::string& file);

// Returns a shell command with which a user prints the summary of the results in `records` on one screen.
std::string TypedAnswer(const std::string& records);
// Returns a line that names two commands that a user may run next on `records`: one writes report.html with
// //tools:report, the other prints all columns with //tools:summarize.
std::string TypedNext(const std::string& records);

}  // namespace gradsync::bench
