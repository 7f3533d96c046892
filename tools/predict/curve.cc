#include "tools/predict/curve.h"

#include <algorithm>
#include <map>

#include "model/error.h"

namespace gradsync::tools {
namespace {

double Along(const Curve::Point& a, const Curve::Point& b, double bytes) {
  return a.second + (b.second - a.second) * (bytes - a.first) / (b.first - a.first);
}

// Between two neighbours, of which there are; `bytes` lies within the measured sizes.
double Within(const std::vector<Curve::Point>& points, double bytes) {
  const auto next = std::ranges::lower_bound(points, bytes, {}, &Curve::Point::first);
  return next->first == bytes ? next->second : Along(*std::prev(next), *next, bytes);
}

}  // namespace

Curve::Curve(std::vector<Point> points) {
  Require(!points.empty(), "a curve without points");
  std::map<double, std::pair<double, double>> sums;
  for (const auto& [bytes, value] : points) {
    auto& [sum, count] = sums[bytes];
    sum += value;
    ++count;
  }
  for (const auto& [bytes, sum] : sums) points_.emplace_back(bytes, sum.first / sum.second);
}

double Curve::TimeAt(double bytes) const {
  const Point& first = points_.front();
  const Point& last = points_.back();
  if (bytes > last.first) return last.second * bytes / last.first;
  if (bytes >= first.first) return Within(points_, bytes);
  const double in_proportion = first.second * bytes / first.first;
  return points_.size() < 2 ? in_proportion : std::max(in_proportion, Along(first, points_[1], bytes));
}

double Curve::RatioAt(double bytes) const {
  return Within(points_, std::clamp(bytes, points_.front().first, points_.back().first));
}

Curve Curve::Scaled(double factor) const {
  Curve scaled = *this;
  for (Point& point : scaled.points_) point.second *= factor;
  return scaled;
}

}  // namespace gradsync::tools
