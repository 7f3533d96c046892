#include "bench/learning/schedule.h"

#include <cmath>
#include <numbers>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "bench/records/units.h"
#include "model/error.h"

namespace gradsync::bench {
namespace {

std::optional<LearningRateSchedule> Parse(std::string_view text) {
  const std::vector<std::string> parts = SplitCommas(text);
  LearningRateSchedule schedule{.is_cosine = parts.front() == "cosine"};
  if (!schedule.is_cosine && parts.front() != "constant") return std::nullopt;
  for (size_t i = 1; i < parts.size(); ++i) {
    const std::pair<std::string, std::string> option = absl::StrSplit(parts[i], absl::MaxSplits('=', 1));
    const auto& [name, value] = option;
    if (name == "warmup") {
      schedule.warmup_steps = ParseInteger(value).value_or(-1);
    } else if (name != "min" || !schedule.is_cosine || !absl::SimpleAtod(value, &schedule.min)) {
      return std::nullopt;
    }
  }
  if (schedule.warmup_steps < 0 || !(schedule.min >= 0 && schedule.min <= 1)) return std::nullopt;
  return schedule;
}

}  // namespace

double LearningRateSchedule::ShareIn(int64_t step, int64_t num_steps) const {
  const auto i = static_cast<double>(step), w = static_cast<double>(warmup_steps);
  if (i < w) return (i + 1) / (w + 1);
  if (!is_cosine) return 1;
  return min +
         (1 - min) * (1 + std::cos(std::numbers::pi * (i - w) / (static_cast<double>(num_steps) - w))) / 2;
}

std::string LearningRateSchedule::ToString() const {
  return Join(is_cosine ? "cosine" : "constant", warmup_steps > 0 ? Join(",warmup=", warmup_steps) : "",
              min > 0 ? Join(",min=", min) : "");
}

Kind<LearningRateSchedule> LearningRateSchedules() {
  return {"constant or cosine, with ,warmup=STEPS and of cosine ,min=SHARE if wanted", Parse,
          [](const LearningRateSchedule& schedule) { return schedule.ToString(); }};
}

}  // namespace gradsync::bench
