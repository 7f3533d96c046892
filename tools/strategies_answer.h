#ifndef GRADSYNC_TOOLS_STRATEGIES_ANSWER_H_
#define GRADSYNC_TOOLS_STRATEGIES_ANSWER_H_

#include <ostream>
#include <string>
#include <vector>

#include "tools/predict/network.h"

namespace gradsync::tools {

// What is asked of gradsync's own strategies.
struct StrategiesQuestion {
  // From //bench:plan or //bench:ddp: the floor's steps, and variants' plans.
  std::vector<std::string> records = {};
  std::vector<std::string> calibrations = {};  // of //bench:calibrate; may be empty if the place has a link
  std::vector<std::string> variants = {};      // variants or strategies; empty: all that can be predicted
  std::string model = {};                      // of the records; empty: the first that has the floor
  Place place = {};
  std::string figure = {};  // a file for the map of which variant is fastest where, or empty
  // From //bench:ddp: steps that are compared; those over links are marked in the map.
  std::vector<std::string> measured = {};
};

// One screen: the steps of variants, the best first, and which of them can be told apart. Throws InvalidInput
// where something is missing.
void PrintStrategiesAnswer(const StrategiesQuestion& question, std::ostream& out);

}  // namespace gradsync::tools

#endif  // GRADSYNC_TOOLS_STRATEGIES_ANSWER_H_
