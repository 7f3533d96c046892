#ifndef GRADSYNC_TOOLS_REPORTS_SCALE_H_
#define GRADSYNC_TOOLS_REPORTS_SCALE_H_

#include <string>
#include <vector>

// Where values lie on an axis, and which of them are written at it.
namespace gradsync::tools {

struct Tick {
  double value = 0;
  std::string label;
};

// Whether a value can be drawn: neither NaN nor infinite, nor so large that a range of it overflows.
bool IsDrawable(double value);

class Scale {
 public:
  enum class Ends {
    kExact,  // the axis ends where the values end
    kTicks,  // it goes on to the next tick
  };

  // Values from `low` to `high` in proportion, on a line from `from` to `to`. A range of one value, or of
  // none (low > high), is widened around it. About `num_ticks` ticks, never more than twice as many:
  // multiples of 1, 2 or 5 times a power of ten. Throws InvalidInput for ends that are not drawable.
  static Scale Linear(double low, double high, double from, double to, int num_ticks, Ends ends);

  // The same for logarithms; `low` must be positive. Ticks are powers of ten, not all where there are many,
  // with 2 and 5 times them where there are few.
  static Scale Log(double low, double high, double from, double to, int num_ticks);

  // Values beyond the ends lie at the ends.
  double operator()(double value) const;
  double low() const { return low_; }
  double high() const { return high_; }
  // In ascending order, all between low and high.
  const std::vector<Tick>& ticks() const { return ticks_; }

 private:
  Scale(double low, double high, double from, double to, bool is_log)
      : low_(low), high_(high), from_(from), to_(to), is_log_(is_log) {}

  double low_;
  double high_;
  double from_;
  double to_;
  bool is_log_;
  std::vector<Tick> ticks_;
};

}  // namespace gradsync::tools

#endif  // GRADSYNC_TOOLS_REPORTS_SCALE_H_
