#include "model/base/error.h"
#include "model/base/flags.h"
#include "model/base/units.h"
#include "tests/fuzz/fuzz.h"

namespace gradsync {
namespace {

// The input is a command line, with one argument per line.
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
  FlagTable table("program", "Takes everything.");
  table.Add("flag", &flag, Switch(), "");
  table.Add("number", &number, Integer(1, 10), "");
  table.Add("numbers", &numbers, Integer(1, 10), "");
  table.Add("choice", &choice, OneOf({"a", "b"}), "");
  table.Add("choices", &choices, OneOf({"a", "b"}), "");
  table.Add("bytes", &bytes, Bytes(), "");
  table.Add("byte_counts", &byte_counts, Bytes(), "");
  table.Add("element_counts", &element_counts, Elements(), "");
  table.Add("duration", &duration, Duration(), "");
  table.Add("positive", &positive, PositiveNumber(), "");
  table.Add("path", &path, Path("FILE"), "");
  table.Add("words", &words, Text("TEXT"), "");
  table.Add("optional_number", &optional_number, Integer(1), "");
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

// A value that is read must be written so that reading it gives this value again.
void ParseUnits(std::string_view text) {
  if (const auto bytes = ParseByteCount(text)) {
    fuzz::Expect(ParseByteCount(FormatByteCount(*bytes)) == bytes);
  }
  if (const auto elements = ParseCount(text)) {
    fuzz::Expect(ParseCount(FormatCount(*elements)) == elements);
  }
  ParseInteger(text);
}

}  // namespace
}  // namespace gradsync

int gradsync::LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text = fuzz::Text(data, size);
  if (text.find('\0') == text.npos) ParseFlags(text);
  ParseUnits(text);
  return 0;
}
