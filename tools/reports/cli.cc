#include "tools/reports/cli.h"

#include <algorithm>
#include <exception>
#include <filesystem>
#include <iterator>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "bench/launch/flags.h"
#include "model/error.h"
#include "tools/render/file.h"
#include "tools/reports/report.h"
#include "tools/tables/summarize.h"
#include "tools/timelines/timeline.h"
#include "tools/timelines/trace.h"

namespace gradsync::tools {
namespace {

namespace fs = std::filesystem;

constexpr int kDone = 0, kFailed = 1, kBadArguments = 2;

constexpr char kSummary[] =
    "Makes one HTML page of benchmark records and traces: figures, tables, machine, commands.\n"
    "  bazel run //tools:report -- DIR --out=report.html\n\n"
    "The page needs nothing beside itself. Traces (*.trace.json) are taken from DIR and DIR/traces.";

struct CommandLine {
  std::vector<std::string> inputs;
  std::string out;
  std::string title = "What gradient synchronisation costs";
};

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

// Draws the runs with traces in these directories.
void DrawTraces(const std::set<std::string>& directories, ReportContents* contents, std::ostream& err) {
  for (const auto& [run, paths] : FindTraces(directories)) {
    try {
      DrawRun(paths, contents);
    } catch (const InvalidInput& error) {
      // One bad trace must not cost the rest of the report.
      err << "report: left out: " << error.what() << "\n";
      ++contents->num_problems;
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
  std::set<std::string> directories;
  for (const std::string& input : line.inputs) {
    if (fs::is_directory(input)) directories.merge(TraceDirectories(input));
  }
  DrawTraces(directories, &contents, err);
  if (contents.timelines.empty()) return contents;
  // Where the records of traced runs lie beside their traces, and not among the inputs: what was run.
  for (const std::string& directory : directories) {
    if (std::ranges::count(line.inputs, directory) > 0) continue;
    Summary traced = Summarize({.inputs = {directory}, .baseline_row = "", .resamples = 100});
    std::ranges::copy_if(traced.report.tables, std::back_inserter(contents.timeline_runs),
                         [](const Table& table) { return table.name() == "runs"; });
  }
  return contents;
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
  flags.Add("out", &line.out, bench::Path("a file such as report.html"), "Where the page goes.");
  flags.Add("title", &line.title, bench::Text("a line of text"), "The page's title.");
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
    WriteFile(line.out, [&](std::ostream& file) { WriteReport(contents, file); });
    out << line.out << std::endl;
  } catch (const InvalidInput& error) {
    return Fail(kBadArguments, error.what(), err);
  } catch (const std::exception& error) {
    return Fail(kFailed, error.what(), err);
  }
  return kDone;
}

}  // namespace gradsync::tools
