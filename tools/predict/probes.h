#ifndef GRADSYNC_TOOLS_PREDICT_PROBES_H_
#define GRADSYNC_TOOLS_PREDICT_PROBES_H_

#include <map>
#include <string>
#include <vector>

#include "tools/predict/launches.h"
#include "tools/predict/step.h"

namespace gradsync::tools {

// A launch of a strategy that sends after backward: typical values over its steps, in seconds.
struct ProbeLaunch {
  std::vector<CollectiveCost> costs = {};  // by bucket
  double total_s = 0, processor_s = 0;     // of all collectives, and CPU-seconds of a rank
  // By bucket: what is done before it is issued, from the end of backward, or of the one before.
  std::vector<double> gaps_s = {};
  double after_s = 0;    // what is done after the last one, until all is averaged
  double outside_s = 0;  // all of these
  bool copies = false;

  double bytes() const {
    double sum = 0;
    for (const CollectiveCost& cost : costs) sum += cost.bytes;
    return sum;
  }
};

// Reads the launches of a calibration's probes, one after the other: rows that do to memory what strategies
// do, most of which overlap nothing.
class ProbeReader {
 public:
  explicit ProbeReader(const Records& floors);

  // One that has no floor beside it, or no buckets, says nothing.
  void Add(const Launch& launch);

  // What collectives take inside a step.
  std::vector<CollectiveCost> Costs();
  // All but the link and the processors, which are there.
  void Complete(Calibration* calibration) const;

 private:
  // Before the first collective lies work for its bytes; before a later one also what the wait for the one
  // before takes beyond its end and, of copies, the work for its result.
  void TakeGaps(Calibration* calibration) const;
  // How far launches of the same variant are apart, as a standard deviation of the logarithm.
  double LogError() const;

  std::map<std::string, Launch> floors_;  // by run
  std::vector<ProbeLaunch> probes_;
  std::vector<Launch> overlapping_;
  std::map<std::string, std::vector<double>> totals_;
  std::vector<double> placed_backward_, remote_optimizer_, copied_optimizer_;  // seconds a byte
  // Beside communication: how much later the last rank ends backward than the mean, and how much longer that
  // is.
  double late_s_ = 0, longer_s_ = 0;
};

}  // namespace gradsync::tools

#endif  // GRADSYNC_TOOLS_PREDICT_PROBES_H_
