#ifndef GRADSYNC_TOOLS_PREDICT_MEASURED_LINK_H_
#define GRADSYNC_TOOLS_PREDICT_MEASURED_LINK_H_

#include <string>

#include "tools/predict/network.h"

namespace gradsync::tools {

// A link that somebody has measured: what programs of nccl-tests printed (all_reduce_perf, and after it
// all_gather_perf or reduce_scatter_perf of as many ranks) or one wrote with -J, in place where it tells; or
// records of //bench:all_reduce, of one backend and number of ranks. nccl-tests do not
// tell what collectives use of processors. Throws InvalidInput, which names the path, for anything else.
MeasuredLink ReadMeasuredLink(const std::string& path);

// The same of a text of nccl-tests.
MeasuredLink ParseNcclTests(const std::string& text);

}  // namespace gradsync::tools

#endif  // GRADSYNC_TOOLS_PREDICT_MEASURED_LINK_H_
