#ifndef GRADSYNC_TOOLS_TABLES_FINDINGS_H_
#define GRADSYNC_TOOLS_TABLES_FINDINGS_H_

#include <string>
#include <vector>

#include "tools/tables/rows.h"

// Sentences that say what the rows show, and no more than they carry.
namespace gradsync::tools {

// First what was asked: is the baseline the fastest, by how much, and what does it cost? Of up to four
// baselines one clause each, of more the counts. Then what it would take to decide what is open. One sentence
// with the reason instead where a flag makes times void.
std::vector<std::string> TrainingSentences(const std::vector<Cell>& cells);

// How much longer to measure, in seconds, until the difference is shown or shown to be within kEqualWithin,
// if the estimate stays where it is and its interval narrows with the root of the rounds. 0 if it is decided.
double SecondsToDecide(const Cell& cell, const Row& row);

}  // namespace gradsync::tools

#endif  // GRADSYNC_TOOLS_TABLES_FINDINGS_H_
