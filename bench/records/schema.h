#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "bench/records/names.h"
#include "bench/records/record.h"

// Functions that look up the names of a record's values in the schema: the table kSchema in
// bench/records/names.h.
namespace gradsync::bench {

// Returns the Scope (names.h) of the value `name` of a record's configuration: whether the value describes
// what was measured (kSetting, such as the model), the seed of weights and batches (kTrial), or how the ranks
// measured (kRun, such as the number of steps). Returns kSetting if the schema has no name `name` of a
// configuration.
Scope ScopeOf(std::string_view name);

// Returns a line for each value of `record` whose type the schema does not allow for its name, such as:
// "batch_size" is a text, expected a whole number. WrongTypes checks the values of the configuration, checks,
// facts, link and published figures, but not the samples. WrongTypes returns no line for a value whose name
// is not in the schema.
std::vector<std::string> WrongTypes(const Record& record);

// Returns a line for each series of samples that `record` lacks although the schema requires it of the
// program that wrote `record`. Such a line is: no samples "step_ns".
std::vector<std::string> MissingSamples(const Record& record);

// Returns the lines of WrongTypes(record), and a line for each missing name that the schema requires of the
// program that wrote `record`. Also returns a line for each name in a RecordPart of `record` that the schema
// does not have. `record` must be complete: the program that wrote it has added all data.
std::vector<std::string> SchemaFaults(const Record& record);

}  // namespace gradsync::bench
