#pragma once

#include <string>
#include <vector>

#include "comm/processes/child_process.h"

// Functions that return command lines of the tools //tools:summarize and //tools:report, which read the
// records of a benchmark. The tools are separate programs, so a crash or a timeout of a tool does not affect
// the measurement.
namespace gradsync::bench {

using Command = std::vector<std::string>;

// Returns the path of `file` (such as "bench/ddp") in the runfiles that Bazel made for the program `argv0`.
// Throws InvalidInput if the file does not exist, or cannot be executed (if `executable`) or read.
std::string RunfilePath(const char* argv0, const std::string& file, bool executable = true);

// Returns environment variables for a program that the program `argv0` starts. With these variables, the
// started program finds its files in the runfiles of `argv0`. Throws InvalidInput if `argv0` has no runfiles.
comm::EnvironmentChanges RunfilesEnvironment(const char* argv0);

// Each of the next four functions returns a command line that runs //tools:summarize on the directory
// `records`. The four functions throw InvalidInput if the runfiles of the program `argv0` lack
// //tools:summarize.
//
// The command that AnswerCommand returns prints a summary of the results that fits on one screen. If `set` is
// not empty, the summary has only the results of the launches whose LaunchId::set is `set`.
Command AnswerCommand(const char* argv0, const std::string& records, const std::string& set = "");
// The command that TablesCommand returns runs //tools:summarize, which writes all tables of results into
// `file`. `format` is "markdown", "csv" or "json".
Command TablesCommand(const char* argv0, const std::string& records, const std::string& format,
                      const std::string& file);
// The command that PrecisionCommand returns computes two confidence intervals for each strategy, from the
// records of the latest set of launches (LaunchId::set). One interval is for the strategy's step time minus
// the baseline strategy's. The other interval is for the strategy's step time minus that of `none`, the
// strategy without communication. The command exits with the status kNo (3) if any interval's half-width is
// unknown, or larger than `precision` times the baseline strategy's step time.
Command PrecisionCommand(const char* argv0, const std::string& records, double precision);
// The command that ChoiceCommand returns reads the records of the first launch (start of all ranks) of a
// benchmark with --choose. The command prints one line with the flags --variants and --steps for the later
// launches, and one line that names the fastest variant (a strategy with options) of the first launch. The
// printed --variants leaves out variants that the first launch shows to be slower than some other variant in
// every setting (batch size, sequence length, ...).
Command ChoiceCommand(const char* argv0, const std::string& records, const std::string& set);
// Returns a command that runs //tools:report, which writes an HTML page with tables and figures into `file`.
// The command exits with status kLacking if matplotlib is missing. ReportCommand throws InvalidInput if the
// program //tools:report is missing.
Command ReportCommand(const char* argv0, const std::string& records, const std::string& file);

// TypedAnswer returns, for users, the command that prints the results on one screen again. TypedNext returns,
// for users, the command that makes an HTML report with //tools:report. The text of TypedNext also names
// //tools:summarize, the program that prints all tables.
std::string TypedAnswer(const std::string& records);
std::string TypedNext(const std::string& records);

}  // namespace gradsync::bench
