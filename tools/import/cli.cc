#include "tools/import/cli.h"

#include <cstdint>
#include <exception>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench/launch/flags.h"
#include "model/error.h"
#include "tools/import/published.h"

namespace gradsync::tools {
namespace {

constexpr char kSummary[] =
    "Reads published tables (Markdown tables, printed tensors, blocks of aligned columns) into records, so "
    "that //tools:summarize shows them beside one's own. They hold statistics, and no samples.";

struct CommandLine {
  std::vector<std::string> files;
  std::string out;
  ImportOptions options;
};

std::string ReadText(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file) throw std::runtime_error(path.string() + ": cannot read it");
  return text.str();
}

// Replaces a file that an earlier import wrote, so that importing twice is importing once.
void WriteRecords(const std::filesystem::path& path, const std::vector<bench::Record>& records) {
  std::ofstream file(path, std::ios::binary);
  for (const bench::Record& record : records) file << ToJsonLine(record) << "\n";
  file.close();
  if (!file) throw std::runtime_error(path.string() + ": cannot write it");
}

void Import(const std::filesystem::path& path, const CommandLine& line, std::ostream& out) {
  const std::string stem = path.stem().string();
  ImportOptions options = line.options;
  options.run_id = "published-" + stem.substr(0, stem.find('_'));
  options.source = path.filename().string();
  const Published published = ReadPublished(ReadText(path), options);
  const std::filesystem::path target = std::filesystem::path(line.out) / (stem + ".jsonl");
  WriteRecords(target, published.records);
  out << target.string() << ": " << published.records.size() << " records from " << options.source << "\n";
  for (const std::string& remark : published.remarks) out << "  " << remark << "\n";
}

}  // namespace

int RunImportPublished(int argc, const char* const* argv, std::ostream& out, std::ostream& err) {
  CommandLine line;
  line.options.strategies = {"naive", "flat", "overlap"};
  int64_t world_size = 0;
  bench::FlagTable flags("import_published", kSummary);
  flags.AllowPaths(&line.files, "files with published tables");
  flags.Add("out", &line.out, bench::Path("a directory"), "Where the records go: <name of the file>.jsonl.");
  flags.Add("strategy", &line.options.strategy, bench::Text("a strategy"),
            "Of grids, which do not say it. Without it the first of overlap, flat, naive in the text.");
  flags.Add("strategies", &line.options.strategies, bench::Text("a strategy"),
            "Of the rows of a DDP table that has no such column.");
  flags.Add("world_size", &world_size, bench::Integer(1, 1 << 20),
            "Of all figures. Without it what is known of the protocol of each kind of table.");
  try {
    flags.Parse(argc, argv);
    if (flags.help_requested()) {
      out << flags.Usage();
      return 0;
    }
    Require(!line.files.empty(), "no input: takes files with published tables");
    Require(!line.out.empty(), "--out: needs a directory");
    if (flags.given("world_size")) line.options.world_size = world_size;
    std::filesystem::create_directories(line.out);
    for (const std::string& file : line.files) {
      Require(std::filesystem::exists(file), file, ": no such file");
      Require(std::filesystem::is_regular_file(file), file, ": not a regular file");
      Import(file, line, out);
    }
  } catch (const InvalidInput& error) {
    err << "import_published: " << error.what() << std::endl;
    return 2;
  } catch (const std::exception& error) {
    err << "import_published: " << error.what() << std::endl;
    return 1;
  }
  return 0;
}

}  // namespace gradsync::tools
