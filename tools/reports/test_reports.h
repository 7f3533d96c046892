#ifndef GRADSYNC_TOOLS_REPORTS_TEST_REPORTS_H_
#define GRADSYNC_TOOLS_REPORTS_TEST_REPORTS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "bench/records/record.h"
#include "tools/reports/test_xml.h"

// What tests of reports put in, and how they read the page.
namespace gradsync::tools {

inline constexpr int64_t kMs = 1000000, kUs = 1000;

struct Outcome {
  int status = 0;
  std::string out;
  std::string err;
  std::string page;
};

// The program's, on a directory of records.
Outcome ReportOn(const std::string& dir);

void AddRanks(const std::function<bench::Record(int64_t rank)>& make, std::vector<bench::Record>* records);
// A variant whose steps compute for `computed_ms` and synchronise for `exposed_ms`, in `count` rounds.
void AddVariant(const char* strategy, const char* backend, int64_t computed_ms, int64_t exposed_ms,
                std::vector<bench::Record>* records, size_t count = 24);
// `none`, and two strategies over two backends, whose differences are shown; two sizes of all-reduce.
std::vector<bench::Record> EveryExperiment();

std::string DirectoryWith(const std::string& name, const std::vector<bench::Record>& records);

// The elements of a section or figure.
std::vector<XmlElement> In(const std::vector<XmlElement>& elements, const std::string& section);
// The texts of the elements called `name`.
std::vector<std::string> Headings(const std::vector<XmlElement>& elements, const std::string& name);
std::vector<std::string> TextsOf(const std::vector<XmlElement>& elements);

}  // namespace gradsync::tools

#endif  // GRADSYNC_TOOLS_REPORTS_TEST_REPORTS_H_
