#include "bench/launch/flags.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <numeric>
#include <set>
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

// Reads text into the target with `parse` (text -> optional), which leaves it unchanged where it reads
// nothing.
template <class T, class Parse>
std::function<bool(std::string_view)> Into(T* target, Parse parse) {
  return [target, parse](std::string_view text) {
    auto value = parse(text);
    if (!value) return false;
    *target = *std::move(value);
    return true;
  };
}

// Reads a comma-separated list whose items `parse` reads.
template <class Parse>
auto ListOf(Parse parse) {
  return [parse](std::string_view text) {
    std::optional<std::vector<typename decltype(parse(text))::value_type>> values(std::in_place);
    for (const std::string_view item : SplitCommas(text)) {
      auto value = parse(item);
      if (!value) return decltype(values)();
      values->push_back(*std::move(value));
    }
    return values;
  };
}

auto IntegerIn(int64_t min, int64_t max) {
  return [=](std::string_view text) {
    const std::optional<int64_t> value = ParseInteger(text);
    return value && *value >= min && *value <= max ? value : std::nullopt;
  };
}

auto OneOf(const std::vector<std::string>& choices) {
  return [choices](std::string_view text) {
    const bool is_one = std::find(choices.begin(), choices.end(), text) != choices.end();
    return is_one ? std::optional<std::string>(text) : std::nullopt;
  };
}

std::optional<int64_t> ParsePositiveBytes(std::string_view text) {
  const std::optional<int64_t> bytes = ParseByteCount(text);
  return bytes && *bytes > 0 ? bytes : std::nullopt;
}

// Byte counts, and ranges of them: "8..1GiB" is 8, 16, ..., "8..1GiB*4" 8, 32, ...; the last one is the
// largest that the range holds.
std::optional<std::vector<int64_t>> ParseByteCounts(std::string_view text) {
  std::vector<int64_t> counts;
  for (const std::string_view item : SplitCommas(text)) {
    const size_t dots = item.find("..");
    const size_t star = dots == item.npos ? item.npos : item.find('*', dots);
    const bool is_range = dots != item.npos;
    const auto first = ParsePositiveBytes(item.substr(0, dots));
    const auto last = is_range ? ParsePositiveBytes(item.substr(dots + 2, star - dots - 2)) : first;
    const auto factor = star == item.npos ? 2 : ParseInteger(item.substr(star + 1)).value_or(0);
    if (!first || !last || *first > *last || factor < 2) return std::nullopt;
    for (int64_t count = *first;; count *= factor) {
      counts.push_back(count);
      if (count > *last / factor) break;
    }
  }
  return counts;
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

std::optional<std::string> ParseText(std::string_view text) {
  return text.empty() ? std::nullopt : std::optional<std::string>(text);
}

std::optional<std::string> ParsePath(std::string_view text) {
  return text.empty() ? std::nullopt : std::optional<std::string>(ResolvePath(text));
}

// In how few characters, put in, left out or replaced, they differ (Levenshtein).
size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i + 1);
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
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

void FlagTable::Add(Flag flag) {
  flag.group = group_;
  flags_.push_back(std::move(flag));
}

void FlagTable::AddBool(std::string name, bool* target, std::string help) {
  Add({std::move(name), "true or false", *target ? "true" : "false", std::move(help), Into(target, ParseBool),
       /*is_bool=*/true});
}

void FlagTable::AddInt(std::string name, int64_t* target, int64_t min, int64_t max, std::string help) {
  Add({std::move(name), "an integer " + Range(min, max), std::to_string(*target), std::move(help),
       Into(target, IntegerIn(min, max))});
}

void FlagTable::AddOptionalInt(std::string name, std::optional<int64_t>* target, std::string help) {
  Add({std::move(name), "an integer of at least 1", "", std::move(help),
       Into(target, IntegerIn(1, std::numeric_limits<int32_t>::max()))});
}

void FlagTable::AddIntList(std::string name, std::vector<int64_t>* target, int64_t min, int64_t max,
                           std::string help) {
  Add({std::move(name), "integers " + Range(min, max) + ", comma separated",
       JoinList(*target, [](int64_t value) { return std::to_string(value); }), std::move(help),
       Into(target, ListOf(IntegerIn(min, max)))});
}

void FlagTable::AddChoice(std::string name, std::string* target, std::vector<std::string> choices,
                          std::string help) {
  Add({std::move(name), JoinChoices(choices), *target, std::move(help), Into(target, OneOf(choices))});
}

void FlagTable::AddChoiceList(std::string name, std::vector<std::string>* target,
                              std::vector<std::string> choices, std::string help) {
  const auto each_once = [parse = ListOf(OneOf(choices))](std::string_view text) {
    auto values = parse(text);
    if (values && std::set<std::string>(values->begin(), values->end()).size() < values->size())
      values.reset();
    return values;
  };
  Add({std::move(name), "a comma-separated list of " + JoinChoices(choices) + ", each at most once",
       JoinList(*target, [](const std::string& value) { return value; }), std::move(help),
       Into(target, each_once)});
}

void FlagTable::AddByteCount(std::string name, int64_t* target, std::string help) {
  Add({std::move(name), kByteCount, FormatByteCount(*target), std::move(help),
       Into(target, ParsePositiveBytes)});
}

void FlagTable::AddByteCountList(std::string name, std::vector<int64_t>* target, std::string help) {
  Add({std::move(name), Join(kByteCount, ", or a range such as 8..1GiB (doubling) or 8..1GiB*4"),
       JoinList(*target, FormatByteCount), std::move(help), Into(target, ParseByteCounts)});
}

void FlagTable::AddElementCountList(std::string name, std::vector<int64_t>* target, std::string help) {
  Add({std::move(name), "numbers of elements such as 4096, 512Ki, 3Mi, comma separated",
       JoinList(*target, FormatElementCount), std::move(help), Into(target, ListOf(ParseElements))});
}

void FlagTable::AddDuration(std::string name, std::chrono::milliseconds* target, std::string help) {
  Add({std::move(name), "a duration such as 500ms, 60s, 2m", FormatDuration(*target), std::move(help),
       Into(target, ParseDuration)});
}

void FlagTable::AddPositiveDouble(std::string name, double* target, std::string help) {
  Add({std::move(name), "a positive number such as 0.001", Join(*target), std::move(help),
       Into(target, ParsePositiveDouble)});
}

void FlagTable::AddOptionalDouble(std::string name, std::optional<double>* target, std::string what,
                                  std::string help) {
  Add({std::move(name), std::move(what), "", std::move(help), Into(target, ParsePositiveDouble)});
}

void FlagTable::AddOptionalPercent(std::string name, std::optional<double>* target, std::string help) {
  const auto parse = [](std::string_view text) -> std::optional<double> {
    if (!text.ends_with('%')) return std::nullopt;
    text.remove_suffix(1);
    const std::optional<double> percent = ParsePositiveDouble(text);
    return percent ? std::optional(*percent / 100) : std::nullopt;
  };
  Add({std::move(name), "a percentage such as 2%", "", std::move(help), Into(target, parse)});
}

void FlagTable::AddPath(std::string name, std::string* target, std::string what, std::string help) {
  Add({std::move(name), std::move(what), *target, std::move(help), Into(target, ParsePath)});
}

void FlagTable::AddText(std::string name, std::string* target, std::string what, std::string help) {
  Add({std::move(name), std::move(what), *target, std::move(help), Into(target, ParseText)});
}

void FlagTable::AllowPaths(std::vector<std::string>* target, std::string what) {
  paths_ = target;
  paths_help_ = std::move(what);
}

FlagTable::Flag& FlagTable::Find(std::string_view name) {
  const auto flag = std::ranges::find(flags_, name, &Flag::name);
  if (flag != flags_.end()) return *flag;
  const auto distance = [&](const Flag& f) { return EditDistance(name, f.name); };
  const auto nearest = std::ranges::min_element(flags_, {}, distance);
  const bool is_near = nearest != flags_.end() && distance(*nearest) <= 1 + name.size() / 4;
  throw InvalidInput(Join("--", name, ": ", program_, " has no such flag",
                          is_near ? Join("; did you mean --", nearest->name, "?") : "; --help lists them"));
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
    flag.text = value;
  }
}

bool FlagTable::given(std::string_view name) const {
  return std::any_of(flags_.begin(), flags_.end(), [&](const Flag& f) { return f.name == name && f.given; });
}

std::vector<std::pair<std::string, std::string>> FlagTable::Values(
    const std::vector<std::string>& except) const {
  std::vector<std::pair<std::string, std::string>> values;
  for (const Flag& flag : flags_) {
    if (std::find(except.begin(), except.end(), flag.name) != except.end()) continue;
    values.emplace_back("--" + flag.name, flag.given ? flag.text : flag.default_value);
  }
  return values;
}

std::string FlagTable::Usage() const {
  std::string usage = summary_ + "\n\n";
  if (paths_ != nullptr) usage += program_ + " takes " + paths_help_ + ".\n\n";
  usage += "Flags of " + program_ + ":\n";
  std::string_view group;
  for (const Flag& flag : flags_) {
    if (flag.group != group) usage += Join("\n", group = flag.group, ":\n");
    usage += "  --" + flag.name + "\n      " + flag.help + "\n      Takes " + flag.takes + ".";
    if (!flag.default_value.empty()) usage += " Default: " + flag.default_value + ".";
    usage += "\n";
  }
  return usage + "  --help\n      Prints this.\n";
}

}  // namespace gradsync::bench
