#include "tools/reports/cli.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "bench/launch/flags.h"
#include "model/error.h"
#include "tools/reports/report.h"
#include "tools/tables/summarize.h"
#include "tools/timelines/timeline.h"
#include "tools/timelines/trace.h"

namespace gradsync::tools {
namespace {

namespace fs = std::filesystem;

constexpr int kDone = 0, kFailed = 1, kBadArguments = 2;
constexpr char kTraceSuffix[] = ".trace.json";
constexpr char kTraces[] = "traces";  // where the suite puts traced runs, below its directory

constexpr char kSummary[] =
    "Makes one HTML page of benchmark records and traces: figures, tables, machine, commands.\n"
    "  bazel run //tools:report -- DIR --out=report.html\n\n"
    "The page needs nothing beside itself. Traces (*.trace.json) are taken from DIR and DIR/traces.";

struct CommandLine {
  std::vector<std::string> inputs;
  std::string out;
  std::string title = "What gradient synchronisation costs";
};

// The traces of each run, below the directories given, by path without rank and suffix.
std::map<std::string, std::vector<std::string>> TracesIn(const std::vector<std::string>& directories) {
  std::map<std::string, std::vector<std::string>> traces;
  for (const std::string& directory : directories) {
    std::error_code error;
    for (const fs::directory_entry& entry : fs::directory_iterator(directory, error)) {
      const std::string path = entry.path().string();
      if (path.ends_with(kTraceSuffix)) traces[path.substr(0, path.rfind(".rank"))].push_back(path);
    }
  }
  for (auto& [run, paths] : traces) std::sort(paths.begin(), paths.end());
  return traces;
}

// The inputs that are directories, and their directories of traces.
std::vector<std::string> TraceDirectories(const std::vector<std::string>& inputs) {
  std::vector<std::string> directories;
  for (const std::string& input : inputs) {
    if (!fs::is_directory(input)) continue;
    directories.push_back(input);
    const fs::path traces = fs::path(input) / kTraces;
    if (fs::is_directory(traces)) directories.push_back(traces.string());
  }
  return directories;
}

// One picture for each batch size and sequence length of a run.
void DrawRun(const std::vector<std::string>& paths, ReportContents* contents) {
  const Trace trace = ReadTraces(paths);
  std::set<std::pair<int64_t, int64_t>> cells;
  for (const auto& [key, ranks] : trace.steps) cells.emplace(key.batch_size, key.seq_len);
  for (const auto& [batch_size, seq_len] : cells) {
    const TimelineOptions options{.strategies = {}, .batch_size = batch_size, .seq_len = seq_len};
    contents->timelines.push_back({Join("What ranks compute and what is on its way, batch ", batch_size,
                                        seq_len > 0 ? Join(", sequence ", seq_len) : ""),
                                   DrawTimeline(trace, ChooseSteps(trace, options))});
  }
}

// Where the records of traced runs lie beside their traces, and not among the inputs: what was run.
void DescribeTraces(const CommandLine& line, const std::vector<std::string>& directories,
                    ReportContents* contents) {
  for (const std::string& directory : directories) {
    if (std::find(line.inputs.begin(), line.inputs.end(), directory) != line.inputs.end()) continue;
    Summary summary = Summarize({.inputs = {directory}, .baseline_row = "", .resamples = 100});
    for (Table& table : summary.report.tables) {
      if (table.name() == "runs") contents->timeline_runs.push_back(std::move(table));
    }
  }
}

ReportContents Collect(const CommandLine& line, std::ostream& err) {
  ReportContents contents;
  contents.title = line.title;
  Summary summary = Summarize({.inputs = line.inputs, .baseline_row = "", .resamples = {}});
  summary.problems.Print(err);
  for (const std::string& remark : summary.remarks) err << remark << "\n";
  contents.tables = std::move(summary.report.tables);
  contents.num_records = summary.num_records;
  contents.num_problems = static_cast<int64_t>(summary.problems.count());
  const std::vector<std::string> directories = TraceDirectories(line.inputs);
  for (const auto& [run, paths] : TracesIn(directories)) {
    try {
      DrawRun(paths, &contents);
    } catch (const InvalidInput& error) {
      // One bad trace must not cost the rest of the report.
      err << "report: left out: " << error.what() << "\n";
      ++contents.num_problems;
    }
  }
  if (!contents.timelines.empty()) DescribeTraces(line, directories, &contents);
  return contents;
}

void Write(const ReportContents& contents, const std::string& path) {
  std::ofstream file(path, std::ios::binary);
  WriteReport(contents, file);
  file.close();
  if (!file) throw std::runtime_error(Join("--out=", path, ": cannot be written: ", std::strerror(errno)));
}

int Fail(int status, const std::string& message, std::ostream& err) {
  err << "report: " << message << std::endl;
  return status;
}

}  // namespace

int RunReport(int argc, const char* const* argv, std::ostream& out, std::ostream& err) {
  CommandLine line;
  bench::FlagTable flags("report", kSummary);
  flags.AllowPaths(&line.inputs, "directories with records, or files of them");
  flags.AddPath("out", &line.out, "a file such as report.html", "Where the page goes.");
  flags.AddText("title", &line.title, "a line of text", "The page's title.");
  try {
    flags.Parse(argc, argv);
    if (flags.help_requested()) {
      out << flags.Usage();
      return kDone;
    }
    Require(!line.inputs.empty(), "no input: takes directories with records, such as results/");
    Require(!line.out.empty(), "--out: is missing, expected a file such as report.html");
    const ReportContents contents = Collect(line, err);
    Require(contents.num_records > 0 || !contents.timelines.empty(), line.inputs.front(),
            ": nothing to report, expected records (*.jsonl) or traces (*.trace.json)");
    Write(contents, line.out);
    out << line.out << std::endl;
  } catch (const InvalidInput& error) {
    return Fail(kBadArguments, error.what(), err);
  } catch (const std::exception& error) {
    return Fail(kFailed, error.what(), err);
  }
  return kDone;
}

}  // namespace gradsync::tools
