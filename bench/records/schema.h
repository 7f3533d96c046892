#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "bench/records/names.h"
#include "bench/records/record.h"

// Compares records with the table of names (bench/records/names.h). The reader checks types. The tests of
// programs check that every written name is in the table, and that every required name is written.
namespace gradsync::bench {

// Returns the scope of a name of a configuration; kSetting if the schema does not have the name.
Scope ScopeOf(std::string_view name);

// Returns a line for each value of `record` whose type is wrong: "\"batch_size\" is a text, expected a whole
// number".
std::vector<std::string> WrongTypes(const Record& record);

// Returns a line for each series of samples that `record` lacks although the schema requires it in the first
// line of a record of this experiment: "no samples \"step_ns\"".
std::vector<std::string> MissingSamples(const Record& record);

// Returns a line for each fault of a complete record: wrong types, missing samples, names that the schema
// does not have, and missing names.
std::vector<std::string> SchemaFaults(const Record& record);

}  // namespace gradsync::bench
