#include "bench/records/schema.h"

#include <algorithm>
#include <set>
#include <utility>

#include "model/error.h"

namespace gradsync::bench {
namespace {

bool Matches(std::string_view pattern, std::string_view name) {
  const size_t star = pattern.find('*');
  if (star == std::string_view::npos) return name == pattern;
  const std::string_view before = pattern.substr(0, star), behind = pattern.substr(star + 1);
  return name.size() > before.size() + behind.size() && name.starts_with(before) && name.ends_with(behind);
}

const SchemaName* Find(Part part, std::string_view name) {
  const auto found = std::ranges::find_if(
      kSchema, [&](const SchemaName& entry) { return entry.part == part && Matches(entry.name, name); });
  return found == std::end(kSchema) ? nullptr : found;
}

// Calls `take(part, name, value)` with every plain value, and `take_ints(part, name)` with every series.
template <class Take, class TakeInts>
void ForEachName(const Record& record, const Take& take, const TakeInts& take_ints) {
  const auto take_all = [&](Part part, const Fields& fields) {
    for (const auto& [name, value] : fields) take(part, name, value);
  };
  take_all(Part::kConfig, record.config);
  take_all(Part::kChecks, record.checks);
  take_all(Part::kFacts, record.facts);
  take_all(Part::kLink, record.link);
  for (const auto& [name, statistics] : record.published) take_all(Part::kPublished, statistics);
  for (const auto& [name, series] : record.samples) take_ints(Part::kSamples, name);
  for (const auto& [name, series] : record.moments) take_ints(Part::kMoments, name);
}

std::string_view TypeOf(const Value& value) {
  constexpr std::string_view kNames[] = {"true or false", "a whole number", "a number", "a text"};
  return kNames[value.index()];
}

// What stands in the place of a wrong value; empty if the value is right.
std::string_view Expected(Type type, const Value& value) {
  const bool is_int = std::holds_alternative<int64_t>(value),
             is_text = std::holds_alternative<std::string>(value);
  switch (type) {
    case Type::kBool:
      return std::holds_alternative<bool>(value) ? "" : "true or false";
    case Type::kInt:
      return is_int ? "" : "a whole number";
    case Type::kNumber:
      return is_int || std::holds_alternative<double>(value) ? "" : "a number";
    case Type::kText:
      return is_text ? "" : "a text";
    case Type::kKnown:
      return is_int || is_text ? "" : "a whole number or \"unknown\"";
    default:
      return "no plain value";
  }
}

}  // namespace

std::vector<std::string> WrongTypes(const Record& record) {
  std::vector<std::string> faults;
  const auto take = [&](Part part, const std::string& name, const Value& value) {
    const SchemaName* const entry = Find(part, name);
    const std::string_view expected = entry == nullptr ? "" : Expected(entry->type, value);
    if (!expected.empty())
      faults.push_back(Join("\"", name, "\" is ", TypeOf(value), ", expected ", expected));
  };
  ForEachName(record, take, [](Part, const std::string&) {});
  return faults;
}

std::vector<std::string> SchemaFaults(const Record& record) {
  std::vector<std::string> faults = WrongTypes(record);
  std::set<std::pair<Part, std::string>> names;
  const auto add = [&](Part part, const std::string& name) {
    names.emplace(part, name);
    if (Find(part, name) == nullptr) faults.push_back(Join("\"", name, "\" is not in the schema"));
  };
  ForEachName(
      record, [&](Part part, const std::string& name, const Value&) { add(part, name); }, add);
  for (const SchemaName& entry : kSchema) {
    // The others are members, which are always written.
    const bool is_free = entry.part != Part::kTop && entry.part != Part::kProvenance;
    const bool is_written =
        Join(" ", entry.writers, " ").find(Join(" ", record.experiment, " ")) != std::string::npos;
    if (is_free && is_written && entry.presence == Presence::kAlways &&
        !names.contains({entry.part, std::string(entry.name)})) {
      faults.push_back(Join("no \"", entry.name, "\""));
    }
  }
  return faults;
}

}  // namespace gradsync::bench
