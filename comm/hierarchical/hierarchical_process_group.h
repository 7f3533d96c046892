#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/group_options.h"

namespace gradsync::comm {

// Makes a group of some ranks, as a part of a larger group. Both groups have one FirstCause
// (RequestQueueOptions).
using MakePart = std::function<std::unique_ptr<ProcessGroup>(const GroupOptions& part,
                                                             const std::shared_ptr<FirstCause>& first_cause)>;

// Makes a group for ranks of several hosts, over two backends: an inner backend within each host, and an
// outer backend between hosts. CPU tensors only. In an all-reduce each rank of a host reduces one share of
// the host's vectors; ranks with equal local ranks reduce this share between hosts; then the ranks of a host
// gather all shares (Mikami et al., 2018: a torus of two dimensions). With L ranks on each host, the link
// carries 1/L of the bytes of an all-reduce by the outer backend alone. Vectors are divided into chunks, so
// that the link carries one chunk while other chunks are reduced in memory. When a collective is issued, all
// its requests are given to the inner and the outer group at once, each with the request that must be done
// before it. So the threads of these groups do all the work.
//
// The inner backend reduces the vectors of the ranks of a host; then the outer backend reduces the sums of
// all hosts. Sums of bf16 are added up in f32, because a host's sum must not be rounded before it is
// complete: 4 bytes per element instead of 2, so the link carries 2/L of the bytes of the outer backend
// alone.
//
// Collectives run one after the other. Allocate, deadlines, lost peers and destruction are as in the inner
// and outer groups, with one exception: the timeout for ranks of other hosts is doubled, because such a rank
// may wait for a rank of its own host, which is then the first cause. With one host, or one rank on each
// host, the group uses a single part, and messages name this part.
//
// The options "inner" and "outer" name the parts' backends. Throws the parts' exceptions; also InvalidInput
// if the hosts have different numbers of ranks.
std::unique_ptr<ProcessGroup> MakeHierarchicalGroup(const GroupOptions& options, const MakePart& make_part);

// Returns the ranks of each host, in rising order; hosts are in the order of their lowest ranks. `hosts` has
// the host of each rank (Job::hosts). Throws InvalidInput unless all hosts have equal numbers of ranks.
std::vector<std::vector<int>> RanksByHost(const std::vector<std::string>& hosts);

}  // namespace gradsync::comm
