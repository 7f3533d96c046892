#include "tools/import/figures.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <map>
#include <optional>
#include <sstream>

#include "model/error.h"

namespace gradsync::tools {
namespace {

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

class Reader {
 public:
  Figures Read(std::string_view text) {
    std::string lower(text);
    std::transform(lower.begin(), lower.end(), lower.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    size_t first = std::string::npos;
    for (const char* word : {"overlap", "flat", "naive"}) {
      if (lower.find(word) < first) figures_.strategy_word = word, first = lower.find(word);
    }
    std::istringstream lines{std::string(text)};
    for (std::string line; std::getline(lines, line);) {
      ++number_;
      ReadLine(Trimmed(line));
    }
    return std::move(figures_);
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

  void CannotRead(std::string_view expected) {
    figures_.remarks.push_back(Join("line ", number_, ": expected ", expected, "; left out"));
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
    bool is_complete = true;
    const auto number = [&](const char* column) {
      const std::optional<double> value = Number(row[column]);
      is_complete &= value.has_value();
      return value.value_or(0);
    };
    if (row.contains("time_taken")) {
      const AllReduceFigure figure{row["backend"], number("data_size (MB)"), number("time_taken"),
                                   number("std_time")};
      if (!is_complete) return CannotRead("data_size (MB), time_taken and std_time");
      figures_.all_reduce.push_back(figure);
    } else if (row.contains("time_per_step")) {
      const DdpFigure figure{row["model_size"],       row["backend"],          row["strategy"],
                             number("time_per_step"), number("std_time_step"), number("time_per_sync"),
                             number("std_time_sync"), number("fraction_sync")};
      if (!is_complete) return CannotRead("five numbers from time_per_step to fraction_sync");
      figures_.ddp.push_back(figure);
    }
  }

  void BeginGridCell(std::string_view line) {
    cell_ = {};
    const auto batch_size = NumberAfter(line, "local_bs:");
    const auto seq_len = NumberAfter(line, "seq_len:");
    has_cell_ = batch_size && seq_len;
    if (!has_cell_) return CannotRead("local_bs: and seq_len: with numbers");
    cell_.batch_size = static_cast<int64_t>(*batch_size);
    cell_.seq_len = static_cast<int64_t>(*seq_len);
  }

  void ReadTensor(std::string_view line) {
    const auto value = NumberAfter(line, "tensor([");
    if (!value || !has_cell_) return CannotRead("a number in the tensor, and local_bs before it");
    if (line.starts_with("total time train")) cell_.step_s = *value;
    if (line.starts_with("total time grad all reduce")) cell_.sync_s = *value;
    if (!line.starts_with("ratio")) return;
    cell_.ratio = *value;
    has_cell_ = false;
    if (!(cell_.step_s > 0 && cell_.sync_s > 0)) return CannotRead("both times before the ratio");
    figures_.grid.push_back(cell_);
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
    if (std::none_of(figures_.remarks.begin(), figures_.remarks.end(), is_same)) {
      figures_.remarks.push_back(Join("line ", number_, ": ", what));
    }
  }

  void ReadStatistics(std::string_view line) {
    const std::vector<std::string> words = Words(line);
    CompareFigure figure{.buffer_size_m = buffer_size_m_, .phase = phase_, .strategy = ""};
    const std::string& name = words.front();
    figure.strategy = name.find("ASYNC") != std::string::npos  ? "bucketed_async"
                      : name.find("SYNC") != std::string::npos ? "bucketed_sync"
                                                               : "core";
    bool is_complete =
        words.size() == 11 && (phase_ == "forward" || phase_ == "backward") && buffer_size_m_ > 0;
    for (size_t i = 0; is_complete && i < 5; ++i) {
      const auto time = Number(words[1 + 2 * i]);
      const auto delta = Number(words[2 + 2 * i]);
      is_complete = time && delta;
      figure.times_ms[i] = time.value_or(0);
      figure.deltas_percent[i] = delta.value_or(0);
    }
    if (!is_complete) return CannotRead("a buffer size, a phase, and ten numbers behind the option's name");
    figures_.compare.push_back(figure);
  }

  Figures figures_;
  int64_t number_ = 0;
  std::vector<std::string> columns_;  // of the Markdown table that the last line belonged to
  GridFigure cell_;
  bool has_cell_ = false;
  double buffer_size_m_ = 0;
  std::string phase_;
};

}  // namespace

Figures FindFigures(std::string_view text) { return Reader().Read(text); }

}  // namespace gradsync::tools
