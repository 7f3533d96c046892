#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/group_options.h"

namespace gradsync::comm {

// A function that makes a process group of the ranks in part.world with the backend part.backend. The group
// reports failures to `first_cause`, which finds out which rank failed first. If `first_cause` is null, the
// group makes its own FirstCause.
using MakePart = std::function<std::unique_ptr<ProcessGroup>(const GroupOptions& part,
                                                             const std::shared_ptr<FirstCause>& first_cause)>;

// Makes the process group of backend hierarchical, which uses an inner process group, an outer process group,
// or both. A rank's inner group connects the ranks of this rank's host. A rank's outer group connects all
// ranks that have this rank's position among the ranks of their hosts. Collectives accept only tensors on the
// CPU.
//
// If both groups exist, an all-reduce works like the 2D-torus all-reduce of Mikami et al. (2018). First, a
// reduce-scatter in the inner group gives each rank one part of the reduction over its host's ranks. Next, an
// all-reduce in the outer group reduces this part over all hosts. Finally, an all-gather in the inner group
// gives each rank all parts.
//
// If all ranks are on one host, only the inner group exists. If each of several hosts has one rank, only the
// outer group exists. If both groups exist, the timeout of the outer group is twice options.timeout. If both
// groups exist, an all-reduce adds up bf16 elements in f32, and rounds only the final sums or means to bf16.
//
// options.backend_options must contain "inner" and "outer", the names of the two groups' backends. Throws
// InvalidInput if the hosts have different numbers of ranks.
std::unique_ptr<ProcessGroup> MakeHierarchicalGroup(const GroupOptions& options, const MakePart& make_part);

// Returns the ranks of each host in ascending order; the hosts are ordered by their lowest ranks. `hosts[r]`
// is the name of the host of rank r. Throws InvalidInput if the hosts have different numbers of ranks.
std::vector<std::vector<int>> RanksByHost(const std::vector<std::string>& hosts);

}  // namespace gradsync::comm
