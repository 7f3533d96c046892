#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/group_options.h"

namespace gradsync::comm {

// Makes a group of some of the ranks as a part, with a first cause: see RequestQueueOptions.
using MakePart = std::function<std::unique_ptr<ProcessGroup>(const GroupOptions& part,
                                                             const std::shared_ptr<FirstCause>& first_cause)>;

// Ranks of several hosts, over two backends: one within a host, one between hosts. CPU tensors only. In an
// all-reduce each rank of a host reduces one share of the host's vectors; ranks with equal local ranks reduce
// this share between hosts; then the ranks of a host gather all shares (Mikami et al., 2018: a torus of two
// dimensions). With L ranks on each host, the link carries 1/L of the bytes of an all-reduce by the outer
// backend alone. Vectors are divided into chunks, so that the link carries one chunk while memory works on
// others. When a collective is issued, all its requests to both parts are issued, each with the request that
// it waits for, so the parts' threads do all the work.
//
// The inner backend reduces the vectors of a host's ranks; then the outer backend reduces the hosts' sums.
// Sums of bf16 are added up in f32, because a host's sum must not be rounded before it is complete: 4 bytes
// per element instead of 2, so the link carries 2/L of the bytes of the outer backend alone.
//
// Collectives run one after the other. Allocate, deadlines, lost peers and destruction are as in the parts,
// except that ranks of other hosts have twice the timeout: such a rank may be waiting for a rank of its own
// host, which is then the first cause. With one host, or one rank on each host, a single part does
// everything, and messages name it.
//
// The options "inner" and "outer" name the parts' backends. Throws the parts' exceptions; also InvalidInput
// if the hosts have different numbers of ranks.
std::unique_ptr<ProcessGroup> MakeHierarchicalGroup(const GroupOptions& options, const MakePart& make_part);

// The ranks of each host, in rising order; hosts are in the order of their lowest ranks. `hosts`: the host of
// each rank (Job::hosts). Throws InvalidInput unless all hosts have equally many ranks.
std::vector<std::vector<int>> RanksByHost(const std::vector<std::string>& hosts);

}  // namespace gradsync::comm
