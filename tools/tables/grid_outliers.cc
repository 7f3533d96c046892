#include "tools/tables/grid_outliers.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "tools/statistics/statistics.h"

namespace gradsync::tools {
namespace {

constexpr double kMayDepartBy = 0.25;
constexpr double kMads = 10;
constexpr size_t kFewestCells = 5;

using Indices = std::vector<size_t>;

double Tokens(const GridCell& cell) { return cell.batch_size * cell.seq_len; }

// For each cell of a series, how far it is from the line through all of them, as a part of the line's value.
std::vector<double> Departures(const std::vector<GridCell>& cells, const Indices& series) {
  std::vector<double> slopes;
  for (const size_t i : series) {
    for (const size_t j : series) {
      const double distance = Tokens(cells[j]) - Tokens(cells[i]);
      if (distance > 0) slopes.push_back((cells[j].step_s - cells[i].step_s) / distance);
    }
  }
  if (slopes.empty()) return std::vector<double>(series.size(), 0);
  const double slope = Median(slopes);
  std::vector<double> offsets;
  for (const size_t i : series) offsets.push_back(cells[i].step_s - slope * Tokens(cells[i]));
  const double offset = Median(offsets);
  std::vector<double> departures;
  for (const size_t i : series) {
    const double expected = offset + slope * Tokens(cells[i]);
    departures.push_back(expected > 0 ? cells[i].step_s / expected - 1 : 0);
  }
  return departures;
}

// The median, over the places that both series have, of the proportion of the one's times to the other's;
// and that at `cell`'s own place, or 0 if the other lacks it.
std::pair<double, double> Proportions(const std::vector<GridCell>& cells, const Indices& series,
                                      const Indices& other, const GridCell& cell) {
  std::vector<double> proportions;
  double here = 0;
  for (const size_t i : series) {
    for (const size_t j : other) {
      const bool is_one_place =
          cells[i].batch_size == cells[j].batch_size && cells[i].seq_len == cells[j].seq_len;
      if (!is_one_place) continue;
      proportions.push_back(cells[i].step_s / cells[j].step_s);
      if (&cells[i] == &cell) here = proportions.back();
    }
  }
  return {Median(proportions), here};
}

}  // namespace

std::vector<bool> OutlierCells(const std::vector<GridCell>& cells) {
  std::map<std::string, std::map<std::string, Indices>> grids;
  for (size_t i = 0; i < cells.size(); ++i) grids[cells[i].grid][cells[i].series].push_back(i);
  std::vector<bool> is_outlier(cells.size(), false);
  for (const auto& [grid, all_series] : grids) {
    for (const auto& [name, series] : all_series) {
      if (series.size() < kFewestCells) continue;
      const std::vector<double> departures = Departures(cells, series);
      std::vector<double> sizes;
      for (const double departure : departures) sizes.push_back(std::abs(departure));
      const double limit = std::max(kMayDepartBy, kMads * 1.4826 * Median(sizes));
      for (size_t i = 0; i < series.size(); ++i) {
        const GridCell& cell = cells[series[i]];
        bool departs = sizes[i] > limit;
        for (const auto& [other_name, other] : all_series) {
          if (!departs || other_name == name) continue;
          const auto [usual, here] = Proportions(cells, series, other, cell);
          if (here > 0 && std::abs(here / usual - 1) <= kMayDepartBy) departs = false;
        }
        is_outlier[series[i]] = departs;
      }
    }
  }
  return is_outlier;
}

}  // namespace gradsync::tools
