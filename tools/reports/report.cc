#include "tools/reports/report.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>

#include "bench/launch/flags.h"
#include "model/error.h"
#include "tools/render/file.h"
#include "tools/reports/figures.h"
#include "tools/reports/timeline.h"
#include "tools/run_tool.h"

namespace gradsync::tools {
namespace {

namespace fs = std::filesystem;

constexpr char kUsage[] =
    "Makes one HTML page of benchmark records and traces: figures, tables, machine, commands.\n"
    "  ./bazelw run //tools:report -- DIR --out=report.html\n\n"
    "The page needs nothing beside itself. Traces (*.trace.json) are taken from DIR and DIR/traces.";

// One figure for each batch size and sequence length of a run.
void DrawRun(const std::string& run, const std::vector<std::string>& paths, std::vector<Figure>* figures) {
  const Trace trace = ReadTraces(paths);
  std::set<std::pair<int64_t, int64_t>> cells;
  for (const auto& [key, ranks] : trace.steps) cells.emplace(key.batch_size, key.seq_len);
  for (const auto& [batch_size, seq_len] : cells) {
    figures->push_back(TimelineFigure(trace, batch_size, seq_len));
    figures->back().id = Join("timeline-", fs::path(run).filename().string(), "-", batch_size, "-", seq_len);
  }
}

ReportContents Collect(const std::vector<std::string>& inputs, std::ostream& err) {
  ReportContents contents{.summary = Summarize(inputs)};
  contents.summary.problems.Print(err);
  for (const std::string& remark : contents.summary.remarks) err << remark << "\n";
  contents.num_problems = contents.summary.problems.count();
  std::set<std::string> directories;
  for (const std::string& input : inputs) {
    if (fs::is_directory(input)) directories.merge(TraceDirectories(input));
  }
  for (const auto& [run, paths] : FindTraces(directories)) {
    try {
      DrawRun(run, paths, &contents.timelines);
    } catch (const InvalidInput& error) {
      // One bad trace must not cost the rest of the report.
      err << "report: left out: " << error.what() << "\n";
      ++contents.num_problems;
    }
  }
  // Records of traced runs lie beside their traces.
  std::erase_if(directories,
                [&](const std::string& directory) { return std::ranges::count(inputs, directory) > 0; });
  if (!contents.timelines.empty() && !directories.empty()) {
    contents.traced = Summarize({directories.begin(), directories.end()});
  }
  return contents;
}

// The picture of the figure `id`. If there are several timelines, that of the latest run.
std::string PictureNamed(const std::string& id, const ReportContents& contents) {
  std::vector<Figure> figures = FiguresOf(contents.summary);
  std::erase_if(figures, [&](const Figure& figure) { return figure.id != id; });
  if (id == "timeline") figures = contents.timelines;
  const auto latest = std::ranges::max_element(figures, {}, &Figure::id);
  Require(latest != figures.end(), "--figure=", id, ": the records hold nothing that it could show",
          id == "timeline" ? ", no trace (*.trace.json) of //bench:ddp --trace" : "");
  return PictureOf(*latest);
}

}  // namespace

int RunReport(int argc, const char* const* argv, std::ostream& out, std::ostream& err) {
  std::vector<std::string> inputs;
  std::string out_path, figure;
  bench::FlagTable flags("report", kUsage);
  const std::vector<std::string> names(std::begin(kFigureNames), std::end(kFigureNames));
  flags.AllowPaths(&inputs, "directories with records, or files of them");
  flags.Add("out", &out_path, bench::Path("a file such as report.html"), "Where the page goes.");
  flags.Add("figure", &figure, bench::OneOf(names),
            "Writes this figure alone, as SVG; timeline: of the latest run with traces.");
  return RunTool("report", &flags, argc, argv, out, err, [&] {
    Require(!inputs.empty(), "no input: takes directories with records, such as results/");
    Require(!out_path.empty(), "--out: is missing, expected a file such as report.html");
    const std::string suffix = fs::path(out_path).extension(), expected = figure.empty() ? ".html" : ".svg";
    Require(suffix == expected, "--out=", out_path, ": expected a name that ends in ", expected);
    const ReportContents contents = Collect(inputs, err);
    Require(contents.summary.num_records > 0 || !contents.timelines.empty(), WhyNoRecords(inputs));
    const std::string picture = figure.empty() ? "" : PictureNamed(figure, contents);
    WriteFile(out_path, [&](std::ostream& file) {
      if (figure.empty()) return WriteReport(contents, file);
      file << picture;
    });
    out << out_path << std::endl;
    return kDone;
  });
}

}  // namespace gradsync::tools
