#include "model/base/flags.h"

#include <cstdlib>
#include <filesystem>
#include <numeric>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "model/base/error.h"
#include "model/base/units.h"
#include "model/base/version.h"

namespace gradsync {
namespace {

std::string PrintText(const std::string& text) { return text; }

std::optional<double> ParsePositiveNumber(std::string_view text) {
  double value = 0;
  const bool is_number = absl::SimpleAtod({text.data(), text.size()}, &value);
  return is_number && value > 0 && value < 1e300 ? std::optional(value) : std::nullopt;
}

// Returns the smallest number of inserted, deleted or replaced characters (Levenshtein distance).
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

std::string DidYouMean(std::string_view name, const std::vector<std::string>& names) {
  const auto distance = [&](const std::string& other) { return EditDistance(name, other); };
  const auto nearest = std::ranges::min_element(names, {}, distance);
  const bool is_near = nearest != names.end() && (distance(*nearest) <= 1 + name.size() / 4 ||
                                                  std::ranges::is_permutation(name, *nearest));
  return is_near ? Join("; did you mean ", *nearest, "?") : "";
}

std::vector<std::string> SplitCommas(std::string_view text) {
  return absl::StrSplit(absl::string_view(text.data(), text.size()), ',');
}

std::string CurrentDirectory() {
  std::error_code error;
  const std::filesystem::path directory = std::filesystem::current_path(error);
  Require(!error, "the current directory cannot be used: ", error.message(),
          "; change to a directory that exists");
  return directory.string();
}

std::string ResolvePath(std::string_view path) {
  namespace fs = std::filesystem;
  const char* const typed_in = std::getenv("BUILD_WORKING_DIRECTORY");
  const fs::path base = typed_in != nullptr            ? fs::path(typed_in)
                        : fs::path(path).is_absolute() ? fs::path()
                                                       : fs::path(CurrentDirectory());
  return (base / fs::path(path)).lexically_normal().string();
}

Kind<bool> Switch() {
  const auto parse = [](std::string_view text) {
    return text == "true" ? std::optional(true) : text == "false" ? std::optional(false) : std::nullopt;
  };
  return {"true or false", parse, [](bool value) { return value ? "true" : "false"; }, {}, true};
}

Kind<int64_t> Integer(int64_t min, int64_t max) {
  const auto parse = [=](std::string_view text) {
    const std::optional<int64_t> value = ParseInteger(text);
    return value && *value >= min && *value <= max ? value : std::nullopt;
  };
  const bool is_bounded = max < std::numeric_limits<int32_t>::max();
  return {is_bounded ? Join("an integer from ", min, " to ", max) : Join("an integer of at least ", min),
          parse, [](int64_t value) { return std::to_string(value); }};
}

Kind<double> PositiveNumber() {
  return {"a positive number such as 0.001", ParsePositiveNumber, [](double value) { return Join(value); }};
}

Kind<double> Percent() {
  const auto parse = [](std::string_view text) {
    const auto percent =
        text.ends_with('%') ? ParsePositiveNumber(text.substr(0, text.size() - 1)) : std::nullopt;
    return percent && *percent <= 100 ? std::optional(*percent / 100) : std::nullopt;
  };
  return {"a percentage, at most 100%, such as 2%", parse,
          [](double share) { return Join(100 * share, "%"); }};
}

Kind<int64_t> Bytes() {
  const auto parse = [](std::string_view text) {
    const std::optional<int64_t> bytes = ParseByteCount(text);
    return bytes && *bytes > 0 ? bytes : std::nullopt;
  };
  return {"a byte count such as 4096, 64KiB, 1MiB, 1GiB", parse, FormatByteCount};
}

Kind<int64_t> Elements() {
  // The largest number is limited so that its bytes can be counted.
  const auto parse = [](std::string_view text) {
    const std::optional<int64_t> elements = ParseCount(text);
    return elements && *elements > 0 && *elements <= int64_t{1} << 50 ? elements : std::nullopt;
  };
  return {"a number of elements such as 4096, 512Ki, 3Mi", parse, FormatCount};
}

Kind<std::chrono::milliseconds> Duration() {
  const auto parse = [](std::string_view text) {
    absl::Duration duration;
    const bool fits = absl::ParseDuration({text.data(), text.size()}, &duration) &&
                      duration >= absl::Milliseconds(1) && duration < absl::Hours(1'000'000);
    return fits ? std::optional(absl::ToChronoMilliseconds(duration)) : std::nullopt;
  };
  return {"a duration such as 500ms, 60s, 2m", parse,
          [](std::chrono::milliseconds value) { return absl::FormatDuration(absl::FromChrono(value)); }};
}

Kind<std::string> OneOf(std::vector<std::string> choices) {
  std::vector<std::pair<std::string, std::string>> named;
  for (const std::string& choice : choices) named.emplace_back(choice, choice);
  return OneOf<std::string>(std::move(named));
}

Kind<std::string> Path(std::string what) {
  const auto parse = [](std::string_view text) {
    return text.empty() ? std::nullopt : std::optional(ResolvePath(text));
  };
  return {std::move(what), parse, PrintText};
}

Kind<std::string> Text(std::string what) {
  const auto parse = [](std::string_view text) {
    return text.empty() ? std::nullopt : std::optional<std::string>(text);
  };
  return {std::move(what), parse, PrintText};
}

void FlagTable::AllowPaths(std::vector<std::string>* target, std::string what) {
  paths_ = target;
  paths_help_ = std::move(what);
}

FlagTable::Flag& FlagTable::Find(std::string_view name) {
  std::vector<std::string> names;
  for (Flag& flag : flags_) {
    if (flag.name == name) return flag;
    names.push_back("--" + flag.name);
    // Other programs turn switches off in this way.
    Require(!flag.is_switch || (name != "no-" + flag.name && name != "no_" + flag.name), "--", name, ": ",
            program_, " has no such flag; did you mean --", flag.name, "=false?");
  }
  const std::string meant = DidYouMean(Join("--", name), names);
  throw InvalidInput(
      Join("--", name, ": ", program_, " has no such flag", meant.empty() ? "; --help lists them" : meant));
}

void FlagTable::Parse(int argc, const char* const* argv) {
  for (int i = 1; i < argc; ++i) {
    std::string_view argument = argv[i];
    if (argument == "--help" || argument == "-h" || argument.starts_with("--help=")) {
      help_requested_ = true;
      topic_ = argument.substr(std::min(argument.size(), std::string_view("--help=").size()));
      const bool is_known = topic_.empty() || topic_ == "all" ||
                            std::ranges::any_of(flags_, [&](const Flag& flag) { return IsOf(flag, topic_); });
      if (!is_known) Find(topic_);  // throws an error with the nearest flag
      return;
    }
    if (argument == "--version") {
      help_requested_ = version_requested_ = true;
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
    } else if (!flag.is_switch) {
      Require(i + 1 < argc, "--", flag.name, ": expected ", flag.takes, " after it");
      value = argv[++i];
    }
    if (!flag.set(value)) {
      std::string meant;
      for (const std::string& item : SplitCommas(value)) {
        if (meant.empty() && std::ranges::count(flag.choices, item) == 0)
          meant = DidYouMean(item, flag.choices);
      }
      throw InvalidInput(Join("--", flag.name, "=", value, ": expected ", flag.takes, meant));
    }
    flag.text = value;
  }
}

bool FlagTable::given(std::string_view name) const {
  return std::ranges::any_of(flags_, [&](const Flag& f) { return f.name == name && f.given; });
}

void FlagTable::Refuse(const std::vector<std::string_view>& names, std::string_view reason) const {
  for (const std::string_view name : names) Require(!given(name), "--", name, ": ", reason);
}

void FlagTable::Refuse(FlagMarks marks, std::string_view reason) const {
  for (const Flag& flag : flags_)
    Require(!flag.given || !Overlap(flag.marks, marks), "--", flag.name, ": ", reason);
}

void FlagTable::RefuseAllBut(FlagMarks marks, std::string_view reason) const {
  for (const Flag& flag : flags_)
    Require(!flag.given || Overlap(flag.marks, marks), "--", flag.name, ": ", reason);
}

std::vector<std::pair<std::string, std::string>> FlagTable::Values(FlagMarks except) const {
  std::vector<std::pair<std::string, std::string>> values;
  for (const Flag& flag : flags_) {
    if (!Overlap(flag.marks, except)) values.emplace_back("--" + flag.name, flag.text);
  }
  return values;
}

std::vector<std::string> FlagTable::Given(FlagMarks except) const {
  std::vector<std::string> given;
  for (const Flag& flag : flags_) {
    if (flag.given && !Overlap(flag.marks, except)) given.push_back(Join("--", flag.name, "=", flag.text));
  }
  return given;
}

bool FlagTable::IsOf(const Flag& flag, std::string_view topic) {
  return flag.name == topic || absl::AsciiStrToLower(flag.group) == topic;
}

std::string FlagTable::LineOf(const Flag& flag) {
  constexpr size_t kNameWidth = 27, kMostDefault = 12;
  std::string line = "  --" + flag.name;
  if (!flag.text.empty() && flag.text.size() <= kMostDefault && !flag.is_switch) line += "=" + flag.text;
  line.resize(std::max(line.size() + 1, kNameWidth), ' ');
  return line + flag.help.substr(0, flag.help.find('\n')) + "\n";
}

std::string FlagTable::Usage() const {
  if (version_requested_) return Join(program_, " of gradsync ", kVersion, "\n");
  std::string usage;
  if (!topic_.empty()) {
    for (const Flag& flag : flags_) {
      if (topic_ != "all" && !IsOf(flag, topic_)) continue;
      absl::StrAppend(&usage, "--", flag.name, "\n    ", absl::StrReplaceAll(flag.help, {{"\n", "\n    "}}),
                      "\n    Takes ", flag.takes, ".",
                      flag.text.empty() ? "" : " Default: " + flag.text + ".", "\n");
    }
    return usage;
  }
  usage = summary_ + "\n\n";
  if (paths_ != nullptr) usage += program_ + " takes " + paths_help_ + ".\n\n";
  if (!first_.empty()) usage += "Most used:\n";
  for (const std::string& name : first_) usage += LineOf(*std::ranges::find(flags_, name, &Flag::name));
  if (!first_.empty()) usage += "\n";
  constexpr size_t kWidth = 110;
  size_t line_begin = 0;
  for (size_t i = 0; i < flags_.size(); ++i) {
    const Flag& flag = flags_[i];
    if (i == 0 || flag.group != flags_[i - 1].group) {
      if (i > 0 && !first_.empty()) usage += "\n";
      line_begin = usage.size();
      usage += flag.group.empty() ? "Flags of " + program_ + ":" : Join(flag.group, ":");
      if (first_.empty()) usage += "\n";
    }
    if (first_.empty()) {
      usage += LineOf(flag);
      continue;
    }
    if (usage.size() - line_begin + flag.name.size() > kWidth) {
      line_begin = usage.size();
      usage += "\n   ";
    }
    usage += " --" + flag.name;
  }
  return usage + (first_.empty() ? "" : "\n") +
         "\n--help=FLAG, or a group in small letters, explains in full; --help=all everything.\n";
}

}  // namespace gradsync
