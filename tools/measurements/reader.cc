#include "tools/measurements/reader.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <istream>
#include <limits>
#include <memory>
#include <set>
#include <streambuf>
#include <system_error>
#include <tuple>
#include <unordered_map>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "bench/records/schema.h"
#include "model/base/error.h"

namespace gradsync::tools {
namespace {

namespace fs = std::filesystem;
using bench::Record;

std::vector<std::string> FilesIn(const std::string& dir, Problems* problems) {
  std::vector<std::string> files;
  try {
    for (const fs::directory_entry& entry : fs::directory_iterator(dir)) {
      const std::string path = entry.path().string();
      const bool is_compressed = path.ends_with(".jsonl.gz");
      // What `gunzip --keep` has made is read instead.
      if (is_compressed && fs::exists(path.substr(0, path.size() - 3))) continue;
      if (is_compressed || path.ends_with(".jsonl")) files.push_back(path);
    }
  } catch (const fs::filesystem_error& error) {
    problems->AddFile(dir, "cannot read: " + error.code().message());
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::vector<std::string> FilesOf(const std::vector<std::string>& inputs, Problems* problems) {
  std::vector<std::string> files;
  std::set<fs::path> seen;
  std::error_code error;
  for (const std::string& input : inputs) {
    Require(fs::exists(input, error), input, ": no such file or directory");
    const bool is_dir = fs::is_directory(input, error);
    for (std::string& file : is_dir ? FilesIn(input, problems) : std::vector{input}) {
      if (seen.insert(fs::weakly_canonical(file, error)).second) files.push_back(std::move(file));
    }
  }
  return files;
}

// A file, which gzip may have compressed.
class FileBuffer : public std::streambuf {
 public:
  explicit FileBuffer(const std::string& path) : file_(gzopen(path.c_str(), "rb"), gzclose) {}

  bool is_open() const { return file_ != nullptr; }
  // Returns why the file could not be read to its end; empty if it could.
  std::string Error() const {
    int status = Z_OK;
    const std::string reason = gzerror(file_.get(), &status);
    return status == Z_OK ? "" : status == Z_ERRNO ? std::strerror(read_error_) : reason;
  }

 private:
  int_type underflow() override {
    const int num_bytes = gzread(file_.get(), buffer_.data(), static_cast<unsigned>(buffer_.size()));
    if (num_bytes < 0) read_error_ = errno;
    if (num_bytes <= 0) return traits_type::eof();
    setg(buffer_.data(), buffer_.data(), buffer_.data() + num_bytes);
    return traits_type::to_int_type(*gptr());
  }

  const std::unique_ptr<gzFile_s, int (*)(gzFile)> file_;
  std::array<char, size_t{1} << 16> buffer_;
  int read_error_ = 0;
};

// Calls `take(number, line)` with each line that is not blank; numbers count from 1.
void ForEachLine(const std::string& path, const std::function<void(int64_t, std::string_view)>& take,
                 Problems* problems) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (fs::exists(status) && !fs::is_regular_file(status)) {
    return problems->AddFile(path, "cannot read: not a regular file");
  }
  FileBuffer source(path);
  if (!source.is_open()) return problems->AddFile(path, Join("cannot read: ", std::strerror(errno)));
  std::istream file(&source);
  constexpr size_t kBufferBytes = kMaxLineBytes + 1;  // getline appends a zero
  const auto buffer = std::make_unique_for_overwrite<char[]>(kBufferBytes);
  int64_t number = 0;
  while (file.getline(buffer.get(), kBufferBytes) || file.gcount() > 0) {
    ++number;
    if (file.fail()) {
      problems->AddLine(path, number,
                        Join("longer than ", kMaxLineBytes >> 20, " MiB: not a gradsync record"));
      file.clear();
      file.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
      continue;
    }
    const auto length = static_cast<size_t>(file.gcount() - (file.eof() ? 0 : 1));
    const std::string_view line(buffer.get(), length);
    if (line.find_first_not_of(" \t\r") != std::string_view::npos) take(number, line);
  }
  if (const std::string reason = source.Error(); !reason.empty()) {
    problems->AddFile(path, Join("cannot read to the end: ", reason));
  } else if (number == 0) {
    problems->AddFile(path, "empty");
  }
}

// A record, its position, and the numbers of its run and group, in the order in which they were first read.
struct Found {
  Record record;
  std::string_view file;
  int64_t line = 0;
  size_t run = 0;  // number of the run, or of the set of launches
  size_t group = 0;
  size_t measurement = 0;
  size_t launch = 0;
};

// A launcher may bind each rank to its own CPUs. A host has the CPUs of all its ranks together.
void CountCpusOfHosts(std::vector<Found>* found) {
  std::map<std::pair<std::string, std::string>, std::set<std::string>> cpus;  // by run and machine
  const auto of_host = [&](const Record& record) -> std::set<std::string>& {
    return cpus[{record.run_id, MachineOf(record)}];
  };
  for (const Found& each : *found) {
    const std::vector<std::string> allowed =
        absl::StrSplit(each.record.facts.StringOr("allowed_cpus", ""), ',', absl::SkipEmpty());
    of_host(each.record).insert(allowed.begin(), allowed.end());
  }
  for (Found& each : *found) {
    const auto count = std::ssize(of_host(each.record));
    if (count > 0) each.record.provenance.cpu_count = count;
  }
}

std::vector<Found> ReadFiles(const std::vector<std::string>& files, const RecordFilter& why_unusable,
                             Problems* problems) {
  std::vector<Found> found;
  for (const std::string& file : files) {
    std::vector<Record> records;
    std::vector<int64_t> lines;  // numbers of the lines at which records begin
    const auto take = [&](int64_t number, std::string_view line) {
      std::string reason = bench::AddLine(line, &records);
      if (!reason.empty()) problems->AddLine(file, number, std::move(reason));
      if (records.size() > lines.size()) lines.push_back(number);
    };
    ForEachLine(file, take, problems);
    for (size_t i = 0; i < records.size(); ++i) {
      std::string reason = why_unusable(records[i]);
      if (reason.empty() && records[i].published.empty()) {
        const std::vector<std::string> missing = bench::MissingSamples(records[i]);
        if (!missing.empty()) reason = missing.front();
      }
      if (reason.empty()) {
        found.push_back({.record = std::move(records[i]), .file = file, .line = lines[i]});
      } else {
        problems->AddLine(file, lines[i], std::move(reason));
      }
    }
  }
  CountCpusOfHosts(&found);
  return found;
}

void AddNumbers(std::vector<Found>* found) {
  std::unordered_map<std::string, size_t> numbers;
  const auto number_of = [&](const std::string& key) {
    return numbers.try_emplace(key, numbers.size()).first->second;
  };
  for (Found& each : *found) {
    const Record& record = each.record;
    const std::string run = Join(record.experiment, "\n", record.facts.StringOr("launch_set", record.run_id),
                                 "\n", record.world_size, "\n");
    // What only chose is not put together with what decides.
    const std::string of_stage = Join(run, record.facts.StringOr("stage", ""), "\n");
    each.run = number_of(run);
    each.group = number_of(of_stage + KeyOf(SettingOf(record)));
    each.measurement = number_of(of_stage + KeyOf(ConfigurationOf(record)));
    each.launch = number_of(record.run_id);
  }
}

}  // namespace

void Problems::Print(std::ostream& out) const {
  for (auto next = reasons_.begin(); next != reasons_.end();) {
    const auto& [place, reason] = *next;
    const auto& [path, first_line] = place;
    int64_t last_line = first_line;
    while (++next != reasons_.end() && next->first == std::pair(path, last_line + 1) &&
           next->second == reason) {
      ++last_line;
    }
    out << path;
    if (first_line > 0) out << ":" << first_line;
    if (last_line > first_line) out << "-" << last_line;
    out << ": " << reason;
    if (last_line > first_line) out << " (" << last_line - first_line + 1 << " lines)";
    out << "\n";
  }
}

RecordSet ReadRecords(const std::vector<std::string>& inputs, const RecordFilter& why_unusable,
                      Problems* problems) {
  const std::vector<std::string> files = FilesOf(inputs, problems);
  std::vector<Found> found = ReadFiles(files, why_unusable, problems);
  AddNumbers(&found);
  std::ranges::stable_sort(found, {}, [](const Found& each) {
    return std::tuple(each.run, each.group, each.measurement, each.launch, each.record.rank);
  });
  RecordSet set;
  const Found* last = nullptr;
  for (auto next = found.begin(); next != found.end();) {
    if (last == nullptr || next->group != last->group) set.groups.emplace_back();
    Group& group = set.groups.back();
    const size_t measurement = next->measurement, launch = next->launch;
    const bool is_first_launch = last == nullptr || last->measurement != measurement;
    std::vector<Record> ranks;
    for (; next != found.end() && next->measurement == measurement && next->launch == launch; ++next) {
      if (!ranks.empty() && ranks.back().rank == next->record.rank) {
        problems->AddLine(std::string(next->file), next->line,
                          Join("a second record of rank ", next->record.rank, " for the configuration of ",
                               last->file, ":", last->line));
      } else {
        ranks.push_back(std::move(next->record));
        last = &*next;
      }
    }
    set.num_records += static_cast<int64_t>(ranks.size());
    if (is_first_launch) {
      group.push_back(CombineRanks(std::move(ranks)));
    } else {
      AddLaunch(CombineRanks(std::move(ranks)), &group.back());
    }
  }
  return set;
}

std::string WhyNoRecords(const std::vector<std::string>& inputs) {
  constexpr size_t kMost = 5;
  const std::string& first = inputs.front();
  std::error_code error;
  if (!fs::is_directory(first, error)) return first + ": no record in it that could be used";
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(first, error)) {
    const std::string name = entry.path().filename();
    if (name.ends_with(".jsonl") || name.ends_with(".jsonl.gz"))
      return first + ": no record in it that could be used";
    names.push_back(name + (entry.is_directory(error) ? "/" : ""));
  }
  std::ranges::sort(names);
  const size_t left_out = names.size() > kMost ? names.size() - kMost : 0;
  names.resize(names.size() - left_out);
  if (left_out > 0) names.push_back(Join(left_out, " more"));
  std::string text = Join(first, ": no records (*.jsonl) in it, ",
                          names.empty() ? "it is empty" : "but " + absl::StrJoin(names, ", "));
  for (const std::string& name : names) {
    if (name.ends_with('/')) return text + "; directories below it are not searched: name them";
  }
  return text;
}

}  // namespace gradsync::tools
