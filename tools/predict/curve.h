#ifndef GRADSYNC_TOOLS_PREDICT_CURVE_H_
#define GRADSYNC_TOOLS_PREDICT_CURVE_H_

#include <utility>
#include <vector>

namespace gradsync::tools {

// A quantity that was measured at some sizes: linear between them.
class Curve {
 public:
  using Point = std::pair<double, double>;  // bytes, value

  // Values, at least one, in any order; several of one size count as their mean.
  explicit Curve(std::vector<Point> points);

  // A time: below the smallest size along the line through the first two points, but at most in proportion to
  // bytes; above the largest in proportion to bytes.
  double TimeAt(double bytes) const;
  // A ratio: constant outside the measured sizes.
  double RatioAt(double bytes) const;
  // With every value multiplied.
  Curve Scaled(double factor) const;

  const std::vector<Point>& points() const { return points_; }

 private:
  std::vector<Point> points_;  // by bytes
};

}  // namespace gradsync::tools

#endif  // GRADSYNC_TOOLS_PREDICT_CURVE_H_
