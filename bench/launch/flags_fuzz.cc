#include "bench/launch/flags.h"
#include "bench/records/units.h"
#include "model/error.h"
#include "tests/fuzz/fuzz.h"

namespace gradsync {
namespace {

// A command line, an argument each line.
void ParseFlags(std::string_view text) {
  std::vector<std::string> arguments = {"program"};
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    arguments.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  std::vector<const char*> pointers;
  for (const std::string& argument : arguments) pointers.push_back(argument.c_str());

  bool flag = false;
  int64_t number = 1, bytes = 1;
  std::vector<int64_t> numbers, byte_counts, element_counts;
  std::string choice = "a", path, words;
  std::vector<std::string> choices, paths;
  std::chrono::milliseconds duration{1};
  double positive = 1;
  std::optional<int64_t> optional_number;
  bench::FlagTable table("program", "Takes everything.");
  table.AddBool("flag", &flag, "");
  table.AddInt("number", &number, 1, 10, "");
  table.AddIntList("numbers", &numbers, 1, 10, "");
  table.AddChoice("choice", &choice, {"a", "b"}, "");
  table.AddChoiceList("choices", &choices, {"a", "b"}, "");
  table.AddByteCount("bytes", &bytes, "");
  table.AddByteCountList("byte_counts", &byte_counts, "");
  table.AddElementCountList("element_counts", &element_counts, "");
  table.AddDuration("duration", &duration, "");
  table.AddPositiveDouble("positive", &positive, "");
  table.AddPath("path", &path, "FILE", "");
  table.AddText("words", &words, "TEXT", "");
  table.AddOptionalInt("optional_number", &optional_number, "");
  table.AllowPaths(&paths, "FILE");
  try {
    table.Parse(static_cast<int>(pointers.size()), pointers.data());
  } catch (const InvalidInput& error) {
    fuzz::Expect(*error.what() != '\0');
  }
  fuzz::Expect(number >= 1 && number <= 10 && bytes >= 1 && duration.count() >= 1 && positive > 0);
  for (const int64_t n : numbers) fuzz::Expect(n >= 1 && n <= 10);
  for (const int64_t n : byte_counts) fuzz::Expect(n >= 1);
  for (const int64_t n : element_counts) fuzz::Expect(n >= 1);
}

// What is read is written so that it is read back.
void ParseUnits(std::string_view text) {
  if (const auto bytes = bench::ParseByteCount(text)) {
    fuzz::Expect(bench::ParseByteCount(bench::FormatByteCount(*bytes)) == bytes);
  }
  if (const auto elements = bench::ParseElementCount(text)) {
    fuzz::Expect(bench::ParseElementCount(bench::FormatElementCount(*elements)) == elements);
  }
  if (const auto duration = bench::ParseDuration(text)) fuzz::Expect(duration->count() > 0);
  bench::ParseInteger(text);
}

}  // namespace
}  // namespace gradsync

int gradsync::LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text = fuzz::Text(data, size);
  if (text.find('\0') == text.npos) ParseFlags(text);
  ParseUnits(text);
  return 0;
}
