#ifndef GRADSYNC_TOOLS_REPORTS_SUMMARY_H_
#define GRADSYNC_TOOLS_REPORTS_SUMMARY_H_

#include <string>
#include <utility>
#include <vector>

#include "tools/tables/table.h"

// What the report says in words, all of it taken from the tables.
namespace gradsync::tools {

// What each table finds first, and why, if it is void: HTML. Empty if there is nothing.
std::string FindingsOf(const std::vector<Table>& tables);

// The host and software of a run, for people; the same for all runs of one machine and build.
struct Machine {
  std::vector<std::pair<std::string, std::string>> facts;  // name, value
  std::vector<std::string> runs;                           // "ddp 20261121T101500-4f2a"
};

// The machines of tables "runs", each once.
std::vector<Machine> MachinesOf(const std::vector<const Table*>& runs);

}  // namespace gradsync::tools

#endif  // GRADSYNC_TOOLS_REPORTS_SUMMARY_H_
