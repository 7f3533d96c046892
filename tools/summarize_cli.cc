#include "tools/summarize_cli.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "model/base/error.h"
#include "model/base/exit_status.h"
#include "model/base/flags.h"
#include "model/base/text.h"
#include "tools/analysis/answers.h"
#include "tools/analysis/words.h"
#include "tools/compare_dirs.h"
#include "tools/render/render.h"
#include "tools/render/screen.h"
#include "tools/tables/summarize.h"

namespace gradsync::tools {
namespace {

enum class Format { kMarkdown, kCsv, kLatex, kJson, kScreen, kChoice };

std::string_view Name(Format format) {
  constexpr std::string_view kNames[] = {"markdown", "csv", "latex", "json", "screen", "choice"};
  return kNames[static_cast<size_t>(format)];
}

constexpr char kSummary[] =
    "Turns benchmark records into tables. Every row lists the reasons not to trust it.\n"
    "  ./bazelw run //tools:summarize -- DIR --format=screen       the answer on one screen\n"
    "  ./bazelw run //tools:summarize -- DIR --baseline=OLD_DIR    what has become slower\n\n"
    "Lines that are no records are named on stderr and left out. Exit status: 0 done; 1 no record could be\n"
    "used; 2 bad arguments, or nothing to compare; 3 with --baseline a row has become slower, has vanished,\n"
    "or has wrong or unequal results (with one launch on a side a slower row is only warned of), with\n"
    "--precision an interval is wider.";

// Has an effect with --precision.
constexpr FlagMarks kWithPrecision{1};

struct CommandLine {
  std::vector<std::string> inputs;
  std::string baseline_row, run;
  Format format = Format::kMarkdown;
  std::string out;
  bool details = false;
  std::string table;
  std::string baseline;
  std::optional<double> precision;
};

void AddFlags(CommandLine* line, FlagTable* flags) {
  flags->AllowPaths(&line->inputs,
                    "files, or directories of which it takes every *.jsonl and *.jsonl.gz, but nothing in "
                    "directories below");
  flags->Add(
      "format", &line->format,
      OneOf(
          {Format::kMarkdown, Format::kCsv, Format::kLatex, Format::kJson, Format::kScreen, Format::kChoice}),
      "Prints tables, or the answer alone (screen).\nchoice: the flags of the launches after one of "
      "--choose. In csv (RFC 4180) each of "
      "several tables on stdout or in one file follows a line '# name'. Without this flag the suffix of "
      "--out decides: .md, .csv, .tex or .json.");
  flags->Add("baseline_row", &line->baseline_row, Text("a strategy or a variant of the records"),
             "Compares the others with this row.\nA strategy: its row over the same backend, of the same "
             "size of buckets if there is one. A variant, such as core@gloo: this row, over all backends. "
             "Default: core, or the first row's strategy where there is no core.",
             kWithPrecision);
  flags->Add("run", &line->run, Text("a run's name, such as 20261124T073209-5e1f"),
             "Takes this run alone, with all its launches.", kWithPrecision);
  flags->Add("table", &line->table, Text("a table's name, as in --format=json"), "Prints this table alone.");
  flags->Add(
      "details", &line->details, Switch(),
      "Prints all columns and tables, for people too.\nThat is percentiles, phases, the reference tables' "
      "columns. csv and json have them anyway.");
  flags->Add(
      "baseline", &line->baseline, Path("a directory or file with records"),
      "Compares with these results, row by row.\nRows of one configuration, whatever their commit and host. "
      "Exits with 3 "
      "if a row is slower beyond its interval, which holds for all rows at once, has vanished, or has wrong "
      "or unequal results; warns if host, processor, build or link differ. Rows of fewer than 10 steps "
      "(n<10) are not compared.");
  flags->Add("precision", &line->precision, Percent(),
             "Exits with 3 unless all intervals of the latest run are within +- this part of a step.\nThat "
             "is, the baseline's. "
             "Makes no tables.",
             kWithPrecision);
  flags->Add("out", &line->out, Path("a file"), "Writes the tables into this file, in place of stdout.");
}

// Writes a temporary file and renames it, so that the path always has the complete old file or the complete
// new file. Throws std::runtime_error with the path and the system's reason.
void WriteFile(const std::string& path, const std::function<void(std::ostream&)>& write) {
  std::error_code error;
  // A path that cannot be replaced, such as /dev/stdout, is written directly.
  const bool is_special =
      std::filesystem::exists(path, error) && !std::filesystem::is_regular_file(path, error);
  const std::string beside = is_special ? path : Join(path, ".", ::getpid(), ".tmp");
  std::ofstream file(beside, std::ios::binary);
  if (file) write(file);
  file.close();
  if (file && (is_special || std::rename(beside.c_str(), path.c_str()) == 0)) return;
  const std::string reason = std::strerror(errno);
  if (!is_special) std::remove(beside.c_str());
  throw std::runtime_error(Join(path, ": cannot write it: ", reason));
}

void Render(const Summary& summary, const CommandLine& line, std::ostream& out) {
  const Report& report = summary.report;
  switch (line.format) {
    case Format::kMarkdown:
      return RenderMarkdown(report, out, line.details);
    case Format::kCsv:
      return RenderCsv(report, out);
    case Format::kLatex:
      return RenderLatex(report, out, line.details);
    case Format::kJson:
      return RenderJson(report, out);
    case Format::kScreen:
      out << RenderScreen(summary);
      return;
    case Format::kChoice:
      out << ChooseForLaunches(summary.settings);
  }
}

void Write(const Summary& summary, const CommandLine& line, std::ostream& out) {
  if (line.out.empty()) {
    Render(summary, line, out);
    out.flush();
  } else {
    WriteFile(line.out, [&](std::ostream& file) { Render(summary, line, file); });
  }
}

void RefuseTogether(const CommandLine& line, const FlagTable& flags) {
  const std::string none = "has no effect with --";
  if (flags.given("baseline")) flags.Refuse({"baseline_row", "run", "table", "precision"}, none + "baseline");
  if (line.precision) flags.RefuseAllBut(kWithPrecision, none + "precision");
  const std::string none_with_format = Join(none, "format=", Name(line.format));
  if (line.format == Format::kScreen || line.format == Format::kChoice)
    flags.Refuse({"baseline", "table"}, none_with_format);
  if (line.format != Format::kMarkdown && line.format != Format::kLatex)
    flags.Refuse({"details"}, none_with_format);
}

constexpr std::pair<std::string_view, Format> kSuffixes[] = {
    {".md", Format::kMarkdown}, {".csv", Format::kCsv}, {".tex", Format::kLatex}, {".json", Format::kJson}};

// Returns the format; if it is not given, from the suffix of --out.
Format FormatOf(const CommandLine& line, bool is_given) {
  const std::string suffix = std::filesystem::path(line.out).extension();
  const auto* const known = std::ranges::find(kSuffixes, suffix, &std::pair<std::string_view, Format>::first);
  if (known == std::end(kSuffixes)) {
    Require(is_given || line.out.empty(), "--out=", line.out,
            ": expected a name that ends in .md, .csv, .tex or .json, or --format beside it");
    return line.format;
  }
  Require(!is_given || line.format == known->second, "--out=", line.out, ": ends in ", suffix,
          ", but --format is ", Name(line.format));
  return known->second;
}

void KeepTable(const std::string& name, Report* report) {
  report->header.clear();
  report->runs.clear();
  std::vector<std::string> names;
  for (const Table& table : report->tables) {
    if (std::ranges::count(names, table.name()) == 0) names.push_back(table.name());
  }
  Require(std::ranges::count(names, name) > 0, "--table=", name, ": the records make no such table, but ",
          Listed(names), DidYouMean(name, names));
  std::erase_if(report->tables, [&](const Table& table) { return table.name() != name; });
  for (Table& table : report->tables) table.SetDetail(false);  // The user asked for this table.
}

// Prints what was omitted.
void PrintProblems(const Summary& summary, std::ostream& err) {
  summary.problems.Print(err);
  for (const std::string& remark : summary.remarks) err << remark << "\n";
  if (summary.problems.count() > 0) {
    err << "summarize: used " << summary.num_records << " records, left out " << summary.problems.count()
        << " lines or files, named above\n";
  }
}

int Fail(int status, const std::string& message, std::ostream& err) {
  err << "summarize: " << message << std::endl;
  return status;
}

int Compare(const CommandLine& line, std::ostream& out, std::ostream& err) {
  const ComparedDirs compared = CompareDirs(line.inputs, line.baseline);
  PrintProblems(compared.summary, err);
  Require(compared.num_matched > 0, "--baseline=", line.baseline,
          ": has no row of what was given: nothing compared");
  Write(compared.summary, line, out);
  if (compared.num_compared == 0)
    return Fail(kBadArguments,
                "--baseline=" + line.baseline + ": no row has 10 steps on both sides: nothing compared", err);
  int status = kDone;
  for (const auto& [fails, text] : compared.complaints) {
    Fail(kNo, (fails ? "" : "warning: ") + text, err);
    if (fails) status = kNo;
  }
  return status;
}

// Returns kNo, and prints the reason, unless every difference of the latest set of launches is known to the
// wanted precision. The name of a set begins with its time.
int CheckPrecision(const Summary& summary, double wanted, std::ostream& err) {
  const auto set = [](const Setting& setting) { return setting.any().facts().StringOr("launch_set", ""); };
  std::string latest;
  if (summary.settings.empty())
    return Fail(kNo, Join("--precision=", 100 * wanted, "%: the records compare nothing"), err);
  for (const auto& [setting, name] : summary.settings) latest = std::max(latest, set(*setting));
  for (const auto& [setting, name] : summary.settings) {
    const double precision = PrecisionOf(*setting);
    if (set(*setting) != latest || precision <= wanted) continue;
    return Fail(
        kNo,
        Join("--precision=", 100 * wanted, "%: ", name, name.empty() ? "" : ": ",
             std::isnan(precision)
                 ? Join("no interval is known",
                        setting->void_reason.empty() ? "" : ": " + setting->void_reason)
                 : Join("the widest interval is +- ", PercentAtMost(precision), " of the baseline's step")),
        err);
  }
  return kDone;
}

int Run(CommandLine* line, const FlagTable& flags, std::ostream& out, std::ostream& err) {
  Require(!line->inputs.empty(), "no input: takes directories or files with records, such as results/");
  line->format = FormatOf(*line, flags.given("format"));
  RefuseTogether(*line, flags);
  if (!line->baseline.empty()) return Compare(*line, out, err);
  Summary summary = Summarize(line->inputs, line->baseline_row, line->run);
  PrintProblems(summary, err);
  if (summary.num_records == 0) return Fail(kFailed, WhyNoRecords(line->inputs), err);
  if (line->precision) return CheckPrecision(summary, *line->precision, err);
  if (!line->table.empty()) KeepTable(line->table, &summary.report);
  Write(summary, *line, out);
  return kDone;
}

}  // namespace

int RunSummarize(int argc, const char* const* argv, std::ostream& out, std::ostream& err) try {
  CommandLine line;
  FlagTable flags("summarize", kSummary);
  AddFlags(&line, &flags);
  flags.Parse(argc, argv);
  int status = kDone;
  if (flags.help_requested()) {
    out << flags.Usage();
  } else {
    status = Run(&line, flags, out, err);
  }
  if (!out.flush()) throw std::runtime_error("cannot write to stdout");
  return status;
} catch (const InvalidInput& error) {
  return Fail(kBadArguments, error.what(), err);
} catch (const std::exception& error) {
  return Fail(kFailed, error.what(), err);
}

}  // namespace gradsync::tools
