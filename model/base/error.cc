#include "model/base/error.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace gradsync::internal {

std::string SixDigits(double number) { return absl::StrCat(number); }

std::string Concatenate(std::initializer_list<std::string_view> texts) {
  std::string all;
  for (const std::string_view text : texts) all += text;
  return all;
}

std::string Tuple(const std::vector<int64_t>& numbers) {
  return absl::StrCat("(", absl::StrJoin(numbers, ", "), ")");
}

}  // namespace gradsync::internal
