#include "tools/import/published.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <sstream>
#include <utility>

#include "model/error.h"

namespace gradsync::tools {
namespace {

using bench::Fields;
using bench::Record;
using bench::Value;

constexpr double kNsPerS = 1e9;
constexpr double kNsPerMs = 1e6;
constexpr int64_t kXlGradientBytes = int64_t{1998235200} * 4;
constexpr int64_t kResnetGradientBytes = int64_t{25557032} * 4;
// More than the fastest all-reduce in the same text, by so much, is more than its link carries.
constexpr double kLinkMargin = 1.25;

double Mebi(double value) { return value * (1 << 20); }

std::string_view Trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

std::optional<double> Number(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// The number behind `label`, whatever follows it.
std::optional<double> NumberAfter(std::string_view line, std::string_view label) {
  const size_t at = line.find(label);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view rest = Trimmed(line.substr(at + label.size()));
  double value = 0;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
  if (error != std::errc() || end == rest.data()) return std::nullopt;
  return value;
}

std::vector<std::string> Words(std::string_view line) {
  std::istringstream stream{std::string(line)};
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(std::move(word));
  return words;
}

std::vector<std::string> MarkdownCells(std::string_view line) {
  std::vector<std::string> cells;
  for (size_t begin = 1; begin < line.size();) {
    const size_t end = std::min(line.find('|', begin), line.size());
    cells.emplace_back(Trimmed(line.substr(begin, end - begin)));
    begin = end + 1;
  }
  return cells;
}

// The first of those that the text mentions; empty if it mentions none.
std::string StrategyIn(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  std::string strategy;
  size_t first = std::string::npos;
  for (const char* const word : {"overlap", "flat", "naive"}) {
    if (lower.find(word) < first) strategy = word, first = lower.find(word);
  }
  return strategy;
}

Fields Statistics(const Protocol& protocol, double mean_ns) {
  Fields statistics;
  statistics.Set("mean_ns", Value(mean_ns));
  if (protocol.steps > 0) statistics.Set("n", protocol.steps);
  return statistics;
}

class Reader {
 public:
  explicit Reader(const ImportOptions& options) : options_(options) {}

  Published Read(std::string_view text) {
    grid_strategy_ = options_.strategy.empty() ? StrategyIn(text) : options_.strategy;
    std::istringstream lines{std::string(text)};
    for (std::string line; std::getline(lines, line);) {
      ++number_;
      ReadLine(Trimmed(line));
    }
    LimitLinks();
    return std::move(published_);
  }

 private:
  void ReadLine(std::string_view line) {
    if (line.starts_with('|')) return ReadMarkdown(line);
    columns_.clear();
    if (line.find("local_bs:") != std::string_view::npos) return BeginGridCell(line);
    if (line.find("tensor([") != std::string_view::npos) return ReadTensor(line);
    if (const auto size = NumberAfter(line, "buffer_size:")) buffer_size_m_ = *size;
    if (line.find("delta%") != std::string_view::npos) return BeginPhase(line);
    if (line.find("_CORE") != std::string_view::npos || line.find("SYNC_") != std::string_view::npos) {
      ReadStatistics(line);
    }
  }

  Record& Add(const Protocol& protocol) {
    return published_.records.emplace_back(NewRecord(protocol, options_));
  }
  void CannotRead(std::string_view expected) {
    published_.remarks.push_back(Join("line ", number_, ": expected ", expected, "; left out"));
  }

  void ReadMarkdown(std::string_view line) {
    const std::vector<std::string> cells = MarkdownCells(line);
    if (columns_.empty()) {
      columns_ = cells;
      return;
    }
    const bool is_rule = line.find_first_not_of("|-: ") == std::string_view::npos;
    if (is_rule) return;
    std::map<std::string, std::string> row;
    for (size_t i = 0; i < std::min(columns_.size(), cells.size()); ++i) row[columns_[i]] = cells[i];
    if (row.contains("time_taken")) return ReadAllReduce(row);
    if (row.contains("time_per_step")) ReadDdp(row);
  }

  // The numbers of these columns; empty if they are not all there.
  static std::vector<double> NumbersOf(const std::map<std::string, std::string>& row,
                                       std::initializer_list<const char*> columns) {
    std::vector<double> numbers;
    for (const char* const column : columns) {
      const auto cell = row.find(column);
      const std::optional<double> value = cell == row.end() ? std::nullopt : Number(cell->second);
      if (!value) return {};
      numbers.push_back(*value);
    }
    return numbers;
  }

  void ReadAllReduce(std::map<std::string, std::string>& row) {
    const std::vector<double> numbers = NumbersOf(row, {"data_size (MB)", "time_taken", "std_time"});
    if (numbers.empty()) return CannotRead("data_size (MB), time_taken and std_time");
    const std::string& backend = row["backend"];
    const double bytes = Mebi(numbers[0]), mean_s = numbers[1];
    Record& record = Add(kAllReduce);
    record.config.Set("backend", backend);
    // What gloo reduced was not said.
    if (backend == "gloo") record.config.Set("device", "not said");
    record.config.Set("op", "sum");
    record.config.Set("size_bytes", std::llround(bytes));
    Fields& statistics = record.published["time_ns"] = Statistics(kAllReduce, mean_s * kNsPerS);
    statistics.Set("std_ns", Value(numbers[2] * kNsPerS));
    const double ranks = static_cast<double>(kAllReduce.world_size);
    double& fastest = fastest_bytes_per_second_[backend];
    fastest = std::max(fastest, bytes / mean_s * 2 * (ranks - 1) / ranks);
  }

  void ReadDdp(std::map<std::string, std::string>& row) {
    const std::vector<double> numbers =
        NumbersOf(row, {"time_per_step", "std_time_step", "time_per_sync", "std_time_sync", "fraction_sync"});
    if (numbers.empty()) return CannotRead("five numbers from time_per_step to fraction_sync");
    std::string strategy = row["strategy"];
    if (strategy.empty()) {
      Require(ddp_.size() < options_.strategies.size(), "row ", ddp_.size() + 1,
              " of the DDP table has no strategy, and --strategies names ", options_.strategies.size());
      strategy = options_.strategies[ddp_.size()];
    }
    ddp_.push_back(published_.records.size());
    Record& record = Add(kDdp);
    record.config.Set("model", row["model_size"]);
    record.config.Set("backend", row["backend"]);
    record.config.Set("strategy", strategy);
    if (row["model_size"] == "xl") record.facts.Set("gradient_bytes", kXlGradientBytes);
    Fields& step = record.published["step_ns"] = Statistics(kDdp, numbers[0] * kNsPerS);
    step.Set("std_ns", Value(numbers[1] * kNsPerS));
    step.Set("printed_ratio", Value(numbers[4]));
    Fields& sync = record.published["sync_exposed_ns"] = Statistics(kDdp, numbers[2] * kNsPerS);
    sync.Set("std_ns", Value(numbers[3] * kNsPerS));
  }

  // Once all all-reduces are known.
  void LimitLinks() {
    for (const size_t i : ddp_) {
      Record& record = published_.records[i];
      const auto fastest = fastest_bytes_per_second_.find(record.config.StringOr("backend", ""));
      if (fastest == fastest_bytes_per_second_.end()) continue;
      record.link.Set("limit_bytes_per_second", Value(kLinkMargin * fastest->second));
    }
  }

  void BeginGridCell(std::string_view line) {
    const auto batch_size = NumberAfter(line, "local_bs:");
    const auto seq_len = NumberAfter(line, "seq_len:");
    cell_.reset();
    if (!batch_size || !seq_len) return CannotRead("local_bs: and seq_len: with numbers");
    cell_ = {.batch_size = static_cast<int64_t>(*batch_size), .seq_len = static_cast<int64_t>(*seq_len)};
  }

  void ReadTensor(std::string_view line) {
    const auto value = NumberAfter(line, "tensor([");
    if (!value || !cell_) return CannotRead("a number in the tensor, and local_bs before it");
    if (line.starts_with("total time train")) cell_->step_s = *value;
    if (line.starts_with("total time grad all reduce")) cell_->sync_s = *value;
    if (!line.starts_with("ratio")) return;
    const GridCell cell = *std::exchange(cell_, std::nullopt);
    if (!(cell.step_s > 0 && cell.sync_s > 0)) return CannotRead("both times before the ratio");
    Require(!grid_strategy_.empty(), "a grid whose strategy the text does not name: give --strategy");
    Record& record = Add(kGrid);
    record.config.Set("strategy", grid_strategy_);
    record.config.Set("batch_size", cell.batch_size);
    record.config.Set("seq_len", cell.seq_len);
    record.facts.Set("gradient_bytes", kXlGradientBytes);
    // Its timer stood around the collective alone.
    if (grid_strategy_ == "flat") record.facts.Set("copies_timed", Value(false));
    Fields& step = record.published["step_ns"] = Statistics(kGrid, cell.step_s * kNsPerS);
    step.Set("printed_ratio", Value(*value));
    // The numbers are printed with so many decimals.
    step.Set("rounding_ns", Value(0.00005 * kNsPerS));
    record.published["sync_exposed_ns"] = Statistics(kGrid, cell.sync_s * kNsPerS);
  }

  void BeginPhase(std::string_view line) {
    const size_t begin = line.find('[');
    const size_t end = line.find(']');
    phase_ = begin < end && end != std::string_view::npos
                 ? std::string(line.substr(begin + 1, end - begin - 1))
                 : "";
    const std::vector<std::string> words = Words(line);
    // A second mean beside the mean: its numbers are the medians.
    if (std::count(words.begin(), words.end(), "mean") == 1 &&
        std::count(words.begin(), words.end(), "Mean") == 1) {
      Remark("the second column headed mean holds the median");
    }
    if (line.find("delta%%") != std::string_view::npos) Remark("a column headed delta%% holds delta%");
  }

  // Once, however many blocks there are.
  void Remark(const std::string& what) {
    const auto is_same = [&](const std::string& remark) { return remark.ends_with(what); };
    if (std::none_of(published_.remarks.begin(), published_.remarks.end(), is_same)) {
      published_.remarks.push_back(Join("line ", number_, ": ", what));
    }
  }

  void ReadStatistics(std::string_view line) {
    constexpr const char* kNames[] = {"mean", "median", "p90", "p95", "p99"};
    const std::vector<std::string> words = Words(line);
    std::vector<double> numbers;  // each statistic in ms, and its difference in percent
    for (size_t i = 1; i < words.size(); ++i) {
      if (const auto number = Number(words[i])) numbers.push_back(*number);
    }
    const bool is_complete = words.size() == 11 && numbers.size() == 10 &&
                             (phase_ == "forward" || phase_ == "backward") && buffer_size_m_ > 0;
    if (!is_complete) return CannotRead("a buffer size, a phase, and ten numbers behind the option's name");
    const std::string& option = words.front();
    Fields statistics = Statistics(kCompare, numbers[0] * kNsPerMs);
    for (size_t i = 0; i < std::size(kNames); ++i) {
      if (i > 0) statistics.Set(Join(kNames[i], "_ns"), Value(numbers[2 * i] * kNsPerMs));
      statistics.Set(Join("printed_delta_", kNames[i], "_percent"), Value(numbers[2 * i + 1]));
    }
    Record& record = CompareRecord(option.find("ASYNC") != std::string::npos  ? "bucketed_async"
                                   : option.find("SYNC") != std::string::npos ? "bucketed_sync"
                                                                              : "core");
    // Strategies that wait, wait inside of what was timed as backward.
    record.published[phase_ == "backward" ? "backward_and_sync_ns" : "forward_ns"] = std::move(statistics);
  }

  // Of this size: forward and backward of one strategy are one record.
  Record& CompareRecord(const std::string& strategy) {
    const int64_t elements = std::llround(Mebi(buffer_size_m_));
    const auto found = std::ranges::find_if(published_.records, [&](const Record& record) {
      return record.config.StringOr("strategy", "") == strategy &&
             record.config.IntOr("buffer_elements", 0) == elements;
    });
    if (found != published_.records.end()) return *found;
    Record& record = Add(kCompare);
    record.config.Set("strategy", strategy);
    record.config.Set("buffer_elements", elements);
    record.config.Set("units", "published");
    // One number for both: core takes it for MiB, the others for Mi elements of four bytes.
    const bool is_core = strategy == "core";
    record.config.Set("bucket_bytes", is_core ? elements : 4 * elements);
    record.facts.Set("bucket_unit", is_core ? "MiB" : "Mi elements");
    record.facts.Set("gradient_bytes", kResnetGradientBytes);
    // Only core's module broadcast parameters and buffers.
    if (!is_core) record.facts.Set("replicas_start_equal", Value(false));
    return record;
  }

  struct GridCell {
    int64_t batch_size = 0;
    int64_t seq_len = 0;
    double step_s = 0;
    double sync_s = 0;
  };

  const ImportOptions& options_;
  Published published_;
  int64_t number_ = 0;                // of the line
  std::vector<std::string> columns_;  // of the Markdown table that the last line belonged to
  std::vector<size_t> ddp_;           // whose records are of DDP tables
  std::map<std::string, double> fastest_bytes_per_second_;  // by backend: what all-reduces carried at most
  std::string grid_strategy_;
  std::optional<GridCell> cell_;  // that was begun
  double buffer_size_m_ = 0;      // as printed: 3 for 3M
  std::string phase_;
};

}  // namespace

Published ReadPublished(std::string_view text, const ImportOptions& options) {
  Published published = Reader(options).Read(text);
  Require(!published.records.empty(), options.source, ": no figures of a known shape in it");
  return published;
}

}  // namespace gradsync::tools
