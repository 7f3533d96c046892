#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/group_options.h"

namespace gradsync::comm {

// Type of the function that makes a process group of some of the ranks, inside a larger process group. Both
// process groups share `first_cause`, which finds the rank that failed first.
using MakePart = std::function<std::unique_ptr<ProcessGroup>(const GroupOptions& part,
                                                             const std::shared_ptr<FirstCause>& first_cause)>;

// Makes a process group for ranks of several hosts from two backends: an inner backend within each host, and
// an outer backend between hosts. CPU tensors only. An all-reduce has three steps: each rank reduces one
// share of the vectors of its host's ranks; ranks with equal local ranks reduce this share between hosts;
// then the ranks of a host gather all shares (Mikami et al., 2018: a torus of two dimensions). With L ranks
// on each host, the network between hosts carries 1/L of the bytes of an all-reduce by the outer backend
// alone. Vectors are divided into chunks, so that the network carries one chunk while other chunks are
// reduced in memory. A collective is divided when it is issued: all requests for its chunks go to the inner
// and the outer process group at once, and each request names the one after which it may start
// (Request::after). So this process group needs no thread of its own.
//
// Sums of bf16 are added up in f32, because a host's sum must not be rounded before the hosts' sums are
// added: 4 bytes per element instead of 2. With L ranks on each host, the network then carries 2/L of the
// bytes that the outer backend alone would send.
//
// Collectives run one after the other. The inner and the outer group handle deadlines, lost peers and
// destruction as these backends do alone, with one exception. The outer group's timeout is doubled, because a
// rank of another host may itself wait for a rank of its own host, and that rank must be blamed. Allocate
// calls the inner group's Allocate. With one host, or one rank on each host, only one of the two backends is
// used, and error messages name this backend.
//
// The options "inner" and "outer" name the two backends. Throws the exceptions of these backends; also
// InvalidInput if the hosts have different numbers of ranks.
std::unique_ptr<ProcessGroup> MakeHierarchicalGroup(const GroupOptions& options, const MakePart& make_part);

// Returns the ranks of each host, in ascending order; hosts are in the order of their lowest ranks.
// `hosts[r]` is a text that identifies the host of rank r. Throws InvalidInput unless all hosts have equal
// numbers of ranks.
std::vector<std::vector<int>> RanksByHost(const std::vector<std::string>& hosts);

}  // namespace gradsync::comm
