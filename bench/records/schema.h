#ifndef GRADSYNC_BENCH_RECORDS_SCHEMA_H_
#define GRADSYNC_BENCH_RECORDS_SCHEMA_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bench/records/record.h"

// All names that may stand in a record. The reader checks types against this table; the tests of programs
// check that what they write is in it, and that they write what it says is always there.
namespace gradsync::bench {

// An object in a record; kTop: the record itself, or a continuation line.
enum class Part { kTop, kConfig, kSamples, kMoments, kChecks, kFacts, kProvenance, kLink, kPublished };

// kNumber: whole or not, or null (NaN). kKnown: a whole number, or the text "unknown".
enum class Type { kBool, kInt, kNumber, kText, kKnown, kInts, kObject, kObjects };

enum class Presence { kSometimes, kAlways };

// What a name of a configuration tells apart. Rows of a table are variants of cells: two records are of one
// row if all of both agree, whatever the run was.
//
//   kVariant  what takes turns with others in a run: strategy, backend, options
//   kCell     what all of them share: model, batch, dtype, device, threads
//   kRun      how the launch measured: how many steps, which seed, on which CPUs
//
// kNone: not of a configuration.
enum class Scope { kNone, kVariant, kCell, kRun };

struct SchemaName {
  Part part;
  std::string_view name;  // "*": anything, in its place
  Type type;
  std::string_view writers;  // experiments, and "import"
  Presence presence;         // kAlways: in each record that these programs have written to its end
  std::string_view meaning;
  Scope scope = Scope::kNone;
};

std::span<const SchemaName> Schema();

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
