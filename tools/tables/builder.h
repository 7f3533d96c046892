#ifndef GRADSYNC_TOOLS_TABLES_BUILDER_H_
#define GRADSYNC_TOOLS_TABLES_BUILDER_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "bench/records/record.h"
#include "tools/records/measurement.h"
#include "tools/statistics/statistics.h"
#include "tools/tables/table.h"

// A kind of table is one file with one builder; MakeTableBuilders lists them.
namespace gradsync::tools {

struct TableOptions {
  BootstrapOptions bootstrap;
  bool with_peers = false;  // whether there are records of other frameworks
};

// A measurement, and those that it is compared with. They live until the tables are finished.
struct Measured {
  const Measurement& own;
  const Measurement& baseline;         // may be `own`
  const Measurement* floor = nullptr;  // without synchronisation; null if there is none
};

// Turns the measurements of one experiment into tables, one group at a time.
class TableBuilder {
 public:
  virtual ~TableBuilder() = default;

  // The experiment, and the samples that its records cannot do without.
  virtual std::string_view experiment() const = 0;
  virtual std::string_view main_samples() const = 0;
  // The strategy that others are compared with unless another is asked for.
  virtual std::string_view default_baseline() const { return "naive"; }
  // Whether Add wants it: all of the experiment, unless it says otherwise.
  virtual bool Takes(const Measurement& measurement) const {
    return measurement.record.experiment == experiment();
  }

  // All that is compared with each other, each with main_samples of at least one step.
  virtual void AddGroup(const std::vector<Measured>& rows) {
    for (const Measured& row : rows) Add(row);
  }
  virtual void Add(const Measured& row) = 0;

  // Appends the tables of everything added. Call once.
  virtual void Finish(std::vector<Table>* tables) = 0;
};

std::unique_ptr<TableBuilder> MakeAllReduceTable(const TableOptions& options);
std::unique_ptr<TableBuilder> MakeCompareTable(const TableOptions& options);
std::unique_ptr<TableBuilder> MakeDdpTable(const TableOptions& options);
std::unique_ptr<TableBuilder> MakeGridTable(const TableOptions& options);
std::unique_ptr<TableBuilder> MakePeersTable(const TableOptions& options);
std::unique_ptr<TableBuilder> MakeComparePeersTable(const TableOptions& options);

using TableBuilders = std::vector<std::unique_ptr<TableBuilder>>;

// All kinds, in the order in which a report shows them. Several may be for one experiment.
TableBuilders MakeTableBuilders(const TableOptions& options);

// The default baseline of the experiment's first table; empty if it has none.
std::string_view DefaultBaseline(const TableBuilders& builders, std::string_view experiment);

// Why no table can hold the record; empty if one can.
std::string WhyUnusable(const TableBuilders& builders, const bench::Record& record);

// What a row about the record is about; the record must be usable.
std::string_view MainSamples(const TableBuilders& builders, const bench::Record& record);

}  // namespace gradsync::tools

#endif  // GRADSYNC_TOOLS_TABLES_BUILDER_H_
