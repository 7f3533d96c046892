#include "tools/reports/test_reports.h"

#include <sstream>
#include <string_view>

#include "tools/records/test_records.h"
#include "tools/reports/report.h"

namespace gradsync::tools {

using bench::Record;

Outcome ReportOn(const std::string& dir) {
  const std::string path = dir + "/report.html", out_flag = "--out=" + path;
  const char* const argv[] = {"report", dir.c_str(), out_flag.c_str()};
  std::ostringstream out, err;
  Outcome outcome;
  outcome.status = RunReport(3, argv, out, err);
  outcome.out = out.str();
  outcome.err = err.str();
  outcome.page = ReadTestFile(path);
  return outcome;
}

void AddRanks(const std::function<Record(int64_t rank)>& make, std::vector<Record>* records) {
  for (const int64_t rank : {0, 1}) records->push_back(make(rank));
}

void AddVariant(const char* strategy, const char* backend, int64_t computed_ms, int64_t exposed_ms,
                std::vector<Record>* records, size_t count) {
  const size_t variant = records->size();
  AddRanks(
      [&](int64_t rank) {
        std::vector<int64_t> steps, computed;
        for (size_t i = 0; i < count; ++i) {
          // Noise that every variant has of its own.
          const auto noise_us = static_cast<int64_t>((i * 37 + variant * 11) % 7) * 100;
          computed.push_back(computed_ms * kMs + noise_us * kUs);
          steps.push_back(computed.back() + (exposed_ms + 10) * kMs);
        }
        Record record = DdpRecord(strategy, rank, steps);
        if (std::string_view(strategy) != "none") record.variant.backend = backend;
        record.samples["forward_ns"] = Repeat(10 * kMs, count);
        record.samples["backward_ns"] = computed;
        for (int64_t& ns : record.samples["backward_ns"]) ns -= 10 * kMs;
        record.samples["sync_exposed_ns"] = Repeat(exposed_ms * kMs, count);
        record.samples["optimizer_ns"] = Repeat(10 * kMs, count);
        return record;
      },
      records);
}

std::vector<Record> EveryExperiment() {
  std::vector<Record> records;
  AddVariant("none", "none", 60, 0, &records);
  AddVariant("naive", "gloo", 60, 60, &records);
  AddVariant("core", "gloo", 80, 20, &records);
  AddVariant("naive", "shm", 60, 30, &records);
  AddVariant("core", "shm", 65, 5, &records);
  for (const int64_t bytes : {1 << 20, 10 << 20}) {
    AddRanks(
        [&](int64_t rank) {
          return AllReduceRecord(bytes, rank, {5 * kMs, 6 * kMs, 7 * kMs});
        },
        &records);
  }
  return records;
}

std::string DirectoryWith(const std::string& name, const std::vector<Record>& records) {
  std::string dir = FreshTestDir(name);
  WriteLines(dir + "/a.jsonl", records);
  return dir;
}

std::vector<XmlElement> In(const std::vector<XmlElement>& elements, const std::string& section) {
  std::vector<XmlElement> found;
  for (const XmlElement& element : elements) {
    if (element.section == section) found.push_back(element);
  }
  return found;
}

std::vector<std::string> Headings(const std::vector<XmlElement>& elements, const std::string& name) {
  std::vector<std::string> texts;
  for (const XmlElement& element : elements) {
    if (element.name == name) texts.push_back(element.text);
  }
  return texts;
}

std::vector<std::string> TextsOf(const std::vector<XmlElement>& elements) {
  std::vector<std::string> texts;
  for (const XmlElement& element : elements) texts.push_back(element.text);
  return texts;
}

}  // namespace gradsync::tools
