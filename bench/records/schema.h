#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "bench/records/names.h"
#include "bench/records/record.h"

// What the table of names (bench/records/names.h) says of a record: the reader checks types against it; the
// tests of programs check that what they write is in it, and that they write what it says is always there.
namespace gradsync::bench {

// The scope of a name of a configuration; kSetting if the schema does not have the name.
Scope ScopeOf(std::string_view name);

// The values of `record` that have another type than the schema's, each in a line: "\"batch_size\" is a text,
// expected a whole number".
std::vector<std::string> WrongTypes(const Record& record);

// The samples that every such record has from its first line on and this one has not: "no samples
// \"step_ns\"".
std::vector<std::string> MissingSamples(const Record& record);

// What is wrong about a record that its program has written to its end: the same, names that the schema does
// not have, and names that are missing.
std::vector<std::string> SchemaFaults(const Record& record);

}  // namespace gradsync::bench
