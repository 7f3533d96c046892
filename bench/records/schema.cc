#include "bench/records/schema.h"

#include <algorithm>
#include <set>
#include <utility>

#include "model/base/error.h"

namespace gradsync::bench {
namespace {

using namespace schema;

constexpr std::string_view kTypeNames[] = {"true or false", "a whole number", "a number", "a text",
                                           "a whole number or \"unknown\""};

// Calls `take(part, name, value)` with every value in the free parts of a record. The value is null for a
// series.
template <class Take>
void ForEachName(const Record& record, const Take& take) {
  const auto take_all = [&](RecordPart part, const Fields& fields) {
    for (const auto& [name, value] : fields) take(part, name, &value);
  };
  take_all(kConfig, record.config);
  take_all(kChecks, record.checks);
  take_all(kFacts, record.facts);
  take_all(kLink, record.link);
  for (const auto& [name, statistics] : record.published) take_all(kPublished, statistics);
  for (const auto& [name, series] : record.samples) take(kSamples, name, nullptr);
}

const SchemaName* Find(RecordPart part, std::string_view name) {
  const auto found = std::ranges::find_if(
      kSchema, [&](const SchemaName& entry) { return entry.part == part && Matches(entry.name, name); });
  return found == std::end(kSchema) ? nullptr : found;
}

bool IsOf(Type type, const Value& value) {
  const auto held = static_cast<Type>(value.index());
  if (type == kKnown) return held == kInt || held == kText;
  return held == type || (type == kNumber && held == kInt);
}

// Returns kSome for an unknown program.
Writer WriterOf(const Record& record) {
  if (record.experiment == "all_reduce") return kAllReduce;
  if (record.experiment == "convergence") return kLearning;
  if (record.experiment != "ddp") return kSome;
  return record.variant.framework.empty() ? kDdp : kPeers;
}

}  // namespace

Scope ScopeOf(std::string_view name) {
  const SchemaName* const entry = Find(kConfig, name);
  return entry == nullptr ? kSetting : entry->scope;
}

std::vector<std::string> WrongTypes(const Record& record) {
  std::vector<std::string> faults;
  ForEachName(record, [&](RecordPart part, const std::string& name, const Value* value) {
    const SchemaName* const entry = value == nullptr ? nullptr : Find(part, name);
    if (entry == nullptr || IsOf(entry->type, *value)) return;
    faults.push_back(
        Join("\"", name, "\" is ", kTypeNames[value->index()], ", expected ", kTypeNames[entry->type]));
  });
  return faults;
}

std::vector<std::string> MissingSamples(const Record& record) {
  std::vector<std::string> faults;
  for (const SchemaName& entry : kSchema) {
    if (entry.part == RecordPart::kSamples && (entry.writers & WriterOf(record)) != 0 &&
        !record.samples.contains(SampleName::Of(entry.name)))
      faults.push_back(Join("no samples \"", entry.name, "\""));
  }
  return faults;
}

std::vector<std::string> SchemaFaults(const Record& record) {
  std::vector<std::string> faults = WrongTypes(record);
  std::set<std::pair<RecordPart, std::string>> names;
  ForEachName(record, [&](RecordPart part, const std::string& name, const Value*) {
    names.emplace(part, name);
    if (!Contains(part, name)) faults.push_back(Join("\"", name, "\" is not in the schema"));
  });
  for (const SchemaName& entry : kSchema) {
    if ((entry.writers & WriterOf(record)) != 0 && !names.contains({entry.part, std::string(entry.name)}))
      faults.push_back(Join("no \"", entry.name, "\""));
  }
  return faults;
}

}  // namespace gradsync::bench
