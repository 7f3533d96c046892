#ifndef GRADSYNC_TOOLS_REPORTS_WINNERS_MAP_H_
#define GRADSYNC_TOOLS_REPORTS_WINNERS_MAP_H_

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace gradsync::tools {

// One panel: the rate of a link against another quantity, both on logarithmic axes.
struct WinnersPanel {
  std::string quantity{};
  double low = 1, high = 2;
  // At a rate, in Gbit/s, and a value of the quantity: the number of a name, or none where it is undecided.
  std::function<std::optional<size_t>(double gbit, double value)> winner{};
  struct Point {
    double gbit, value;
    std::optional<size_t> winner;
  };
  std::vector<Point> measured{};
};

// Writes a picture (SVG) of which name wins where, with circles where it was measured. Throws
// std::runtime_error if the file cannot be written.
void WriteWinnersMap(const std::string& path, const std::vector<std::string>& names,
                     const std::vector<WinnersPanel>& panels);

}  // namespace gradsync::tools

#endif  // GRADSYNC_TOOLS_REPORTS_WINNERS_MAP_H_
