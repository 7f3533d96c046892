#include "bench/launch/flags.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <utility>

#include "bench/records/units.h"
#include "model/error.h"

namespace gradsync::bench {
namespace {

constexpr char kByteCount[] = "a byte count such as 4096, 64KiB, 1MiB, 1GiB";

template <class T, class ToText>
std::string JoinList(const std::vector<T>& values, ToText&& to_text) {
  std::string joined;
  for (const T& value : values) joined += (joined.empty() ? "" : ",") + to_text(value);
  return joined;
}

// Reads a comma-separated list with `parse` (text -> optional). False, and the target unchanged, if an item
// is nothing that `parse` reads.
template <class T, class Parse>
bool SetList(std::string_view text, std::vector<T>* target, Parse&& parse) {
  std::vector<T> values;
  for (const std::string_view item : SplitCommas(text)) {
    std::optional<T> value = parse(item);
    if (!value) return false;
    values.push_back(*std::move(value));
  }
  *target = std::move(values);
  return true;
}

std::optional<int64_t> ParseIntegerIn(std::string_view text, int64_t min, int64_t max) {
  const std::optional<int64_t> value = ParseInteger(text);
  return value && *value >= min && *value <= max ? value : std::nullopt;
}

std::optional<int64_t> ParsePositiveBytes(std::string_view text) {
  const std::optional<int64_t> bytes = ParseByteCount(text);
  return bytes && *bytes > 0 ? bytes : std::nullopt;
}

// Up to a number whose bytes can still be counted.
std::optional<int64_t> ParseElements(std::string_view text) {
  const std::optional<int64_t> elements = ParseElementCount(text);
  return elements && *elements > 0 && *elements <= int64_t{1} << 50 ? elements : std::nullopt;
}

std::string Range(int64_t min, int64_t max) {
  if (max == std::numeric_limits<int64_t>::max()) return Join("of at least ", min);
  return Join("from ", min, " to ", max);
}

std::optional<bool> ParseBool(std::string_view text) {
  if (text == "true") return true;
  if (text == "false") return false;
  return std::nullopt;
}

std::string FormatDuration(std::chrono::milliseconds duration) {
  const int64_t ms = duration.count();
  return ms % 1000 == 0 ? Join(ms / 1000, "s") : Join(ms, "ms");
}

std::optional<double> ParsePositiveDouble(std::string_view text) {
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end || !(value > 0 && value < 1e300)) return std::nullopt;
  return value;
}

}  // namespace

std::vector<std::string_view> SplitCommas(std::string_view text) {
  std::vector<std::string_view> parts;
  for (;;) {
    const size_t comma = text.find(',');
    parts.push_back(text.substr(0, comma));
    if (comma == std::string_view::npos) return parts;
    text.remove_prefix(comma + 1);
  }
}

std::string JoinChoices(const std::vector<std::string>& choices) {
  std::string joined;
  for (size_t i = 0; i < choices.size(); ++i) {
    if (i > 0) joined += i + 1 == choices.size() ? " or " : ", ";
    joined += choices[i];
  }
  return joined;
}

std::string ResolvePath(std::string_view path) {
  namespace fs = std::filesystem;
  const char* const typed_in = std::getenv("BUILD_WORKING_DIRECTORY");
  const fs::path base = typed_in != nullptr ? fs::path(typed_in) : fs::current_path();
  return (base / fs::path(path)).lexically_normal().string();
}

void FlagTable::AddBool(std::string name, bool* target, std::string help) {
  Add({std::move(name), "true or false", *target ? "true" : "false", std::move(help), true,
       [target](std::string_view text) {
         const std::optional<bool> value = ParseBool(text);
         if (value) *target = *value;
         return value.has_value();
       }});
}

void FlagTable::AddInt(std::string name, int64_t* target, int64_t min, int64_t max, std::string help) {
  Add({std::move(name), "an integer " + Range(min, max), std::to_string(*target), std::move(help), false,
       [=](std::string_view text) {
         const std::optional<int64_t> value = ParseIntegerIn(text, min, max);
         if (value) *target = *value;
         return value.has_value();
       }});
}

void FlagTable::AddOptionalInt(std::string name, std::optional<int64_t>* target, std::string help) {
  constexpr int64_t kMax = std::numeric_limits<int32_t>::max();
  Add({std::move(name), "an integer of at least 1", "", std::move(help), false,
       [target](std::string_view text) {
         const std::optional<int64_t> value = ParseIntegerIn(text, 1, kMax);
         if (value) *target = value;
         return value.has_value();
       }});
}

void FlagTable::AddIntList(std::string name, std::vector<int64_t>* target, int64_t min, int64_t max,
                           std::string help) {
  Add({std::move(name), "integers " + Range(min, max) + ", comma separated",
       JoinList(*target, [](int64_t value) { return std::to_string(value); }), std::move(help), false,
       [=](std::string_view text) {
         return SetList(text, target, [=](std::string_view item) { return ParseIntegerIn(item, min, max); });
       }});
}

void FlagTable::AddChoice(std::string name, std::string* target, std::vector<std::string> choices,
                          std::string help) {
  Add({std::move(name), JoinChoices(choices), *target, std::move(help), false,
       [target, choices](std::string_view text) {
         if (std::find(choices.begin(), choices.end(), text) == choices.end()) return false;
         *target = text;
         return true;
       }});
}

void FlagTable::AddChoiceList(std::string name, std::vector<std::string>* target,
                              std::vector<std::string> choices, std::string help) {
  Add({std::move(name), "a comma-separated list of " + JoinChoices(choices) + ", each at most once",
       JoinList(*target, [](const std::string& value) { return value; }), std::move(help), false,
       [target, choices](std::string_view text) {
         std::vector<std::string> seen;
         return SetList(text, target, [&](std::string_view item) -> std::optional<std::string> {
           if (std::find(choices.begin(), choices.end(), item) == choices.end()) return std::nullopt;
           if (std::find(seen.begin(), seen.end(), item) != seen.end()) return std::nullopt;
           return seen.emplace_back(item);
         });
       }});
}

void FlagTable::AddByteCount(std::string name, int64_t* target, std::string help) {
  Add({std::move(name), kByteCount, FormatByteCount(*target), std::move(help), false,
       [target](std::string_view text) {
         const std::optional<int64_t> bytes = ParsePositiveBytes(text);
         if (bytes) *target = *bytes;
         return bytes.has_value();
       }});
}

void FlagTable::AddByteCountList(std::string name, std::vector<int64_t>* target, std::string help) {
  Add({std::move(name), kByteCount, JoinList(*target, FormatByteCount), std::move(help), false,
       [target](std::string_view text) { return SetList(text, target, ParsePositiveBytes); }});
}

void FlagTable::AddElementCountList(std::string name, std::vector<int64_t>* target, std::string help) {
  Add({std::move(name), "numbers of elements such as 4096, 512Ki, 3Mi, comma separated",
       JoinList(*target, FormatElementCount), std::move(help), false,
       [target](std::string_view text) { return SetList(text, target, ParseElements); }});
}

void FlagTable::AddDuration(std::string name, std::chrono::milliseconds* target, std::string help) {
  Add({std::move(name), "a duration such as 500ms, 60s, 2m", FormatDuration(*target), std::move(help), false,
       [target](std::string_view text) {
         const std::optional<std::chrono::milliseconds> value = ParseDuration(text);
         if (value) *target = *value;
         return value.has_value();
       }});
}

void FlagTable::AddPositiveDouble(std::string name, double* target, std::string help) {
  Add({std::move(name), "a positive number such as 0.001", Join(*target), std::move(help), false,
       [target](std::string_view text) {
         const std::optional<double> value = ParsePositiveDouble(text);
         if (value) *target = *value;
         return value.has_value();
       }});
}

void FlagTable::AddOptionalDouble(std::string name, std::optional<double>* target, std::string what,
                                  std::string help) {
  Add({std::move(name), std::move(what), "", std::move(help), false, [target](std::string_view text) {
         const std::optional<double> value = ParsePositiveDouble(text);
         if (value) *target = value;
         return value.has_value();
       }});
}

void FlagTable::AddPath(std::string name, std::string* target, std::string what, std::string help) {
  Add({std::move(name), std::move(what), *target, std::move(help), false, [target](std::string_view text) {
         if (text.empty()) return false;
         *target = ResolvePath(text);
         return true;
       }});
}

void FlagTable::AddText(std::string name, std::string* target, std::string what, std::string help) {
  Add({std::move(name), std::move(what), *target, std::move(help), false, [target](std::string_view text) {
         *target = text;
         return !text.empty();
       }});
}

void FlagTable::AllowPaths(std::vector<std::string>* target, std::string what) {
  paths_ = target;
  paths_help_ = std::move(what);
}

FlagTable::Flag& FlagTable::Find(std::string_view name) {
  const auto flag = std::find_if(flags_.begin(), flags_.end(), [&](const Flag& f) { return f.name == name; });
  Require(flag != flags_.end(), "--", name, ": ", program_, " has no such flag; --help lists them");
  return *flag;
}

void FlagTable::Parse(int argc, const char* const* argv) {
  for (int i = 1; i < argc; ++i) {
    std::string_view argument = argv[i];
    if (argument == "--help" || argument == "-h") {
      help_requested_ = true;
      return;
    }
    if (paths_ != nullptr && !argument.empty() && !argument.starts_with('-')) {
      paths_->push_back(ResolvePath(argument));
      continue;
    }
    Require(argument.starts_with("--") && argument.size() > 2, argument,
            ": expected a flag such as --name=value");
    argument.remove_prefix(2);
    const size_t equals = argument.find('=');
    Flag& flag = Find(argument.substr(0, equals));
    Require(!flag.given, "--", flag.name, ": given more than once");
    flag.given = true;
    std::string_view value = "true";
    if (equals != std::string_view::npos) {
      value = argument.substr(equals + 1);
    } else if (!flag.is_bool) {
      Require(i + 1 < argc, "--", flag.name, ": expected ", flag.takes, " after it");
      value = argv[++i];
    }
    Require(flag.set(value), "--", flag.name, "=", value, ": expected ", flag.takes);
  }
}

bool FlagTable::given(std::string_view name) const {
  return std::any_of(flags_.begin(), flags_.end(), [&](const Flag& f) { return f.name == name && f.given; });
}

std::string FlagTable::Usage() const {
  std::string usage = summary_ + "\n\n";
  if (paths_ != nullptr) usage += program_ + " takes " + paths_help_ + ".\n\n";
  usage += "Flags of " + program_ + ":\n";
  for (const Flag& flag : flags_) {
    usage += "  --" + flag.name + "\n      " + flag.help + "\n      Takes " + flag.takes + ".";
    if (!flag.default_value.empty()) usage += " Default: " + flag.default_value + ".";
    usage += "\n";
  }
  return usage + "  --help\n      Prints this.\n";
}

}  // namespace gradsync::bench
