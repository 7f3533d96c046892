#ifndef GRADSYNC_BENCH_RECORDS_SCHEMA_H_
#define GRADSYNC_BENCH_RECORDS_SCHEMA_H_

#include <string>
#include <string_view>
#include <vector>

#include "bench/records/record.h"

// All names that may stand in the free parts of a record; its members are in record.h. The reader checks
// types against this table; the tests of programs check that what they write is in it, and that they write
// what it says is always there.
namespace gradsync::bench {

// What a name of a configuration tells apart. Rows of a table are variants of cells: two records are of one
// row if all of both agree, whatever the run was.
//
//   kVariant  what takes turns with others in a run: strategy, backend, options
//   kCell     what all of them share: model, batch, dtype, device, threads
//   kRun      how the launch measured: how many steps, which seed, on which CPUs
enum class Scope { kVariant, kCell, kRun };

// Of a name of this configuration: kVariant for an option in the text of its variant, else what the schema
// says, or kCell for a name that is not there.
Scope ScopeOf(std::string_view name, const Fields& config);

// The values of `record` that have another type than the schema's, each in a line: "\"batch_size\" is a text,
// expected a whole number".
std::vector<std::string> WrongTypes(const Record& record);

// What is wrong about a record that its program has written to its end: the same, names that neither the
// schema has nor, as an option, its variant, and names that are missing.
std::vector<std::string> SchemaFaults(const Record& record);

}  // namespace gradsync::bench

#endif  // GRADSYNC_BENCH_RECORDS_SCHEMA_H_
