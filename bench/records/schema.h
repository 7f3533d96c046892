#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "bench/records/names.h"
#include "bench/records/record.h"

// Compares records with the table of names in bench/records/names.h (the schema).
namespace gradsync::bench {

// Returns the scope of a name in a record's configuration; kSetting if the schema lacks the name.
Scope ScopeOf(std::string_view name);

// Returns a line for each value of `record` that has another type than the schema says, such as: "batch_size"
// is a text, expected a whole number.
std::vector<std::string> WrongTypes(const Record& record);

// Returns a line, such as: no samples "step_ns", for each series of samples that the schema requires of this
// benchmark and that `record` lacks.
std::vector<std::string> MissingSamples(const Record& record);

// Returns a line for each value of a wrong type, each name that the schema does not have, and each required
// name that is missing. `record` must be complete.
std::vector<std::string> SchemaFaults(const Record& record);

}  // namespace gradsync::bench
