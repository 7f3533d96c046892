#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "model/base/text.h"

// Parses command-line flags into variables of the program.
//
// Abseil's flag library is not used, because a bad value must end the program with exit status 2 and one line
// that names the accepted values, and because tests must parse command lines without global variables.
namespace gradsync {

std::vector<std::string> SplitCommas(std::string_view text);

// Returns "" or, if one of `names` is similar to the mistyped `name`, a text such as "; did you mean core?"
std::string DidYouMean(std::string_view name, const std::vector<std::string>& names);

// Describes the values that a command-line flag accepts, and how to parse and print them.
template <class T>
struct Kind {
  std::string takes;  // for errors and the usage: "a byte count such as 4096"
  std::function<std::optional<T>(std::string_view)> parse;  // nullopt if the flag does not accept the text
  std::function<std::string(const T&)> print;
  std::vector<std::string> choices = {};  // the allowed values, if there is a list of them
  bool is_switch = false;                 // --name alone is "true"
};

Kind<bool> Switch();
Kind<int64_t> Integer(int64_t min, int64_t max = std::numeric_limits<int32_t>::max());
Kind<double> PositiveNumber();
// Returns the description (Kind) of a flag that accepts percentages above 0 % and up to 100 %: "2%" becomes
// 0.02.
Kind<double> Percent();
// Returns the description (Kind) of a flag that accepts positive numbers of bytes, such as "4096" or "64KiB"
// (ParseByteCount).
Kind<int64_t> Bytes();
// Returns the description (Kind) of a flag that accepts numbers of elements from 1 to 2^50, such as "4096" or
// "512Ki" (ParseCount).
Kind<int64_t> Elements();
// Returns the description (Kind) of a flag that accepts durations from a millisecond to less than 1,000,000
// hours, such as "500ms" or "2m".
Kind<std::chrono::milliseconds> Duration();
Kind<std::string> OneOf(std::vector<std::string> choices);
// Returns the description (Kind) of a flag that accepts the names in `named`, a list of pairs of a name and a
// value. Kind::parse turns a name into the value of the same pair. Kind::print accepts only values in
// `named`, so the flag's default must be one of them.
template <class T>
Kind<T> OneOf(std::vector<std::pair<std::string, T>> named) {
  std::vector<std::string> choices;
  for (const auto& [name, value] : named) choices.push_back(name);
  std::string takes = Listed(choices, "or");
  const auto parse = [named](std::string_view text) {
    const auto found = std::ranges::find(named, text, &std::pair<std::string, T>::first);
    return found == named.end() ? std::nullopt : std::optional<T>(found->second);
  };
  const auto print = [named](const T& value) {
    return std::ranges::find(named, value, &std::pair<std::string, T>::second)->first;
  };
  return {std::move(takes), parse, print, std::move(choices)};
}
// Returns the Kind, a description with functions that parse and print values, of a flag that accepts the
// names of the enumerators `values`. T's namespace must have a function Name that returns the name of an
// enumerator.
template <class T>
requires std::is_enum_v<T> Kind<T> OneOf(std::initializer_list<T> values) {
  std::vector<std::pair<std::string, T>> named;
  for (const T value : values) named.emplace_back(Name(value), value);
  return OneOf<T>(std::move(named));
}
// Returns the description (Kind) of a flag that accepts any path that is not empty. Parsing makes the path
// absolute (ResolvePath).
Kind<std::string> Path(std::string what);
// Returns the description (Kind) of a flag that accepts any text that is not empty.
Kind<std::string> Text(std::string what);

// A set of categories of command-line flags, one bit for each category. Each program defines its own
// categories, such as the flags that choose where results are written. FlagTable's functions
// Refuse(FlagMarks), RefuseAllBut, Values and Given select flags by category instead of by lists of names.
enum class FlagMarks : uint32_t { kNone = 0 };
constexpr FlagMarks operator|(FlagMarks a, FlagMarks b) {
  return FlagMarks{static_cast<uint32_t>(a) | static_cast<uint32_t>(b)};
}
constexpr bool Overlap(FlagMarks a, FlagMarks b) {
  return (static_cast<uint32_t>(a) & static_cast<uint32_t>(b)) != 0;
}

// The command-line flags of one program. A flag's target, the variable that receives its value, must outlive
// the table. The value that the target has when Add is called is the flag's default.
class FlagTable {
 public:
  FlagTable(std::string program, std::string summary)
      : program_(std::move(program)), summary_(std::move(summary)) {}

  // --help without a topic lists, under `title`, the flags that are added after this call and before the next
  // BeginGroup.
  void BeginGroup(std::string title) { group_ = std::move(title); }

  // Sets the names of the flags, all added by Add, that --help without a topic explains, in one line each.
  // --help without a topic does not explain the flags that are not in `names`, and only lists their names. If
  // ShowFirst is not called, --help explains all flags.
  void ShowFirst(std::vector<std::string> names) { first_ = std::move(names); }

  // Adds a flag --name. Parse writes the flag's value to `target` if the command line has the flag. --help
  // without a topic shows at most the first line of `help`, so this line must be a sentence that starts with
  // what the flag does.
  template <class T>
  void Add(std::string name, T* target, const Kind<T>& kind, std::string help,
           FlagMarks marks = FlagMarks::kNone) {
    AddFlag<T>(std::move(name), kind, kind.print(*target), std::move(help), target, marks);
  }
  // Adds a flag that may have no default: if the command line lacks the flag, `target` keeps its value, which
  // is usually nullopt.
  template <class T>
  void Add(std::string name, std::optional<T>* target, const Kind<T>& kind, std::string help,
           FlagMarks marks = FlagMarks::kNone) {
    AddFlag<T>(std::move(name), kind, *target ? kind.print(**target) : "", std::move(help), target, marks);
  }
  // Adds a flag whose value is a comma-separated list, in which no item may occur twice.
  template <class T>
  void Add(std::string name, std::vector<T>* target, const Kind<T>& kind, std::string help,
           FlagMarks marks = FlagMarks::kNone) {
    const auto parse_list = [parse = kind.parse](std::string_view text) {
      std::optional<std::vector<T>> all(std::in_place);
      for (const std::string& item : SplitCommas(text)) {
        const std::optional<T> value = parse(item);
        if (!value || std::ranges::count(*all, *value) > 0) return std::optional<std::vector<T>>();
        all->push_back(*value);
      }
      return all;
    };
    std::string text;
    for (const T& value : *target) text += (text.empty() ? "" : ",") + kind.print(value);
    AddFlag<std::vector<T>>(
        std::move(name),
        {kind.takes + ", or a comma-separated list without repeats", parse_list, {}, kind.choices, false},
        std::move(text), std::move(help), target, marks);
  }

  // Allows paths, which must not start with '-', on the command line without a flag in front of them. Parse
  // makes these paths absolute and appends them to `target`. In the text for --help, `what` describes the
  // paths.
  void AllowPaths(std::vector<std::string>* target, std::string what);

  // Reads the command line: "--name=value" for any flag, "--name" for a flag of Kind Switch (true or false),
  // and "--name value" for a flag of another Kind. Throws InvalidInput for an unknown flag, a bad or missing
  // value, a flag given twice, or an unknown topic of --help=TOPIC. Also throws InvalidInput for an argument
  // that is neither a flag, nor a flag's value, nor a path that AllowPaths allows. At --help, -h,
  // --help=TOPIC or --version, Parse returns and ignores all later arguments; help_requested() is then true.
  // TOPIC is the name of a flag, the title of a group of flags (BeginGroup) in small letters, or "all".
  void Parse(int argc, const char* const* argv);

  bool help_requested() const { return help_requested_; }
  bool given(std::string_view name) const;
  // Refuse throws InvalidInput if the command line has a flag whose name is in `names`, or a flag of one of
  // the categories `marks`. RefuseAllBut throws InvalidInput if the command line has any flag that is in none
  // of the categories `marks`. The message is "--NAME: " and `reason`, such as "has no effect with --trace".
  void Refuse(const std::vector<std::string_view>& names, std::string_view reason) const;
  void Refuse(FlagMarks marks, std::string_view reason) const;
  void RefuseAllBut(FlagMarks marks, std::string_view reason) const;
  // Returns ("--NAME", value) for each flag of the program, except flags with one of the marks in `except`.
  // `value` is the text from the command line ("true" for a bare switch), else the default, or "" without a
  // default.
  std::vector<std::pair<std::string, std::string>> Values(FlagMarks except) const;
  // Returns --NAME=VALUE for each flag on the command line, except flags with one of the marks in `except`.
  std::vector<std::string> Given(FlagMarks except) const;
  // Returns the text that the program prints for --help, --help=TOPIC or --version.
  std::string Usage() const;

 private:
  struct Flag {
    std::string name, takes;
    std::string text;  // the given value, or the default; empty if there is none
    std::string help;
    std::function<bool(std::string_view)> set;  // returns false if the flag does not accept the text
    bool is_switch = false;
    std::string group = {};
    std::vector<std::string> choices = {};
    FlagMarks marks = FlagMarks::kNone;
    bool given = false;
  };

  template <class T, class Target>
  void AddFlag(std::string name, const Kind<T>& kind, std::string text, std::string help, Target* target,
               FlagMarks marks) {
    const auto set = [parse = kind.parse, target](std::string_view value) {
      std::optional<T> parsed = parse(value);
      if (parsed) *target = *std::move(parsed);
      return parsed.has_value();
    };
    flags_.push_back({std::move(name), kind.takes, std::move(text), std::move(help), set, kind.is_switch,
                      group_, kind.choices, marks});
  }

  Flag& Find(std::string_view name);
  static bool IsOf(const Flag& flag, std::string_view topic);
  static std::string LineOf(const Flag& flag);

  const std::string program_;
  const std::string summary_;
  std::vector<Flag> flags_;
  std::string group_;  // group of flags that are added next
  std::vector<std::string> first_;
  std::vector<std::string>* paths_ = nullptr;
  std::string paths_help_;
  bool help_requested_ = false;
  std::string topic_;  // topic of --help; empty if there is none
  bool version_requested_ = false;
};

// Returns `path` as an absolute path without "." and "..". A relative `path` starts at the directory where
// the user typed the command, also under `bazel run` (which sets BUILD_WORKING_DIRECTORY).
std::string ResolvePath(std::string_view path);
// Returns the current directory. CurrentDirectory, and ResolvePath if it needs the current directory, throw
// InvalidInput if this directory has been removed or cannot be read.
std::string CurrentDirectory();

}  // namespace gradsync
