#include "tools/tables/words.h"

#include <iterator>

namespace gradsync::tools {

std::string Listed(const std::vector<std::string>& items) {
  std::string text;
  for (size_t i = 0; i < items.size(); ++i) {
    text += (i == 0 ? "" : i + 1 == items.size() ? " and " : ", ") + items[i];
  }
  return text;
}

std::string CountWord(size_t count) {
  constexpr const char* kWords[] = {"no",    "one",   "two",  "three", "four",   "five",  "six",
                                    "seven", "eight", "nine", "ten",   "eleven", "twelve"};
  return count < std::size(kWords) ? kWords[count] : std::to_string(count);
}

}  // namespace gradsync::tools
