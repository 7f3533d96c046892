#ifndef GRADSYNC_TOOLS_REPORTS_SUMMARY_H_
#define GRADSYNC_TOOLS_REPORTS_SUMMARY_H_

#include <map>
#include <string>
#include <vector>

#include "tools/tables/table.h"

// What the report says in words, all of it taken from the tables.
namespace gradsync::tools {

// What was run, on what: a few sentences of HTML.
std::string SummaryOf(const std::vector<Table>& tables);

// The host and software of a run, for people; the same for all runs of one machine and build.
struct Machine {
  std::vector<std::pair<std::string, std::string>> facts;  // name, value
  std::vector<std::string> runs;                           // "ddp 20261121T101500-4f2a"
};

// The machines of a table "runs", each once.
std::vector<Machine> MachinesOf(const Table& runs);

// The explanations of the flags in the tables' notes ("`n<100`: ..."), by flag.
std::map<std::string, std::string> FlagLegend(const std::vector<Table>& tables);
// Whether a note is one of those.
bool ExplainsFlag(const std::string& note);

}  // namespace gradsync::tools

#endif  // GRADSYNC_TOOLS_REPORTS_SUMMARY_H_
