#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/group_options.h"

namespace gradsync::comm {

// The type of the function that makes one of the two parts of a hierarchical process group: the inner group,
// of the ranks of one host, or the outer group, of one rank of each host. The function makes a process group
// of the ranks in part.world with backend part.backend. The inner, the outer and the hierarchical group share
// the object `first_cause`, so that their errors name the rank that failed first. `first_cause` is null if
// the hierarchical group has only one part.
using MakePart = std::function<std::unique_ptr<ProcessGroup>(const GroupOptions& part,
                                                             const std::shared_ptr<FirstCause>& first_cause)>;

// Makes a process group for ranks of several hosts from two backends: an inner backend within each host, and
// an outer backend between hosts. Its collectives accept only tensors on the CPU. An all-reduce works like
// the 2D-torus all-reduce of Mikami et al. (2018). First each rank reduces a different part of the vector
// over its host's ranks (a reduce-scatter). Then the ranks that have the same local rank on their hosts
// reduce their part between the hosts. Finally the ranks of each host gather all parts. In a long all-reduce
// with L ranks on each host, the network between hosts carries 1/L of the bytes that it would carry if
// backend gloo alone connected all ranks. In a collective of the ranks of all hosts, long vectors are divided
// into chunks. The network carries one chunk while other chunks are reduced within the hosts.
//
// In collectives of all ranks, sums and means of bf16 are added up in f32, so that no host's sum is rounded
// before the hosts' sums are added. The hosts send each other these f32 values, which have twice the bytes of
// bf16 values. So in an all-reduce of bf16 with L ranks on each host, the network carries 2/L of the bytes
// that backend gloo alone would send between the hosts.
//
// The inner backend detects late and lost ranks of this host, and the outer backend those of other hosts. The
// outer group's timeout is twice the inner group's (options.timeout). So if a rank waits for a late rank of
// its own host, their inner group fails first, and the error blames the late rank. ProcessGroup::Allocate
// returns memory of the inner group; without an inner group, memory of the outer group. If all ranks are on
// one host, only the inner backend is used. If each of several hosts has one rank, only the outer backend is
// used. If only one backend is used, error messages name this backend instead of hierarchical.
//
// options.backend_options must contain "inner" and "outer", the names of the two backends. Throws the
// exceptions that these backends throw when they make a group. Also throws InvalidInput if the hosts have
// different numbers of ranks.
std::unique_ptr<ProcessGroup> MakeHierarchicalGroup(const GroupOptions& options, const MakePart& make_part);

// Returns the ranks of each host, in ascending order; hosts are in the order of their lowest ranks.
// `hosts[r]` is a text that identifies the host of rank r. Throws InvalidInput unless all hosts have equal
// numbers of ranks.
std::vector<std::vector<int>> RanksByHost(const std::vector<std::string>& hosts);

}  // namespace gradsync::comm
