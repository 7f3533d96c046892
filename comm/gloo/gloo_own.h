#ifndef GRADSYNC_COMM_GLOO_GLOO_OWN_H_
#define GRADSYNC_COMM_GLOO_GLOO_OWN_H_

#include "comm/gloo/gloo_mesh.h"
#include "comm/queue/request.h"

namespace gradsync::comm {

// Backend `gloo_own`: the algorithms that come with gloo, as PyTorch's gloo backend runs them, over the same
// connections as backend `gloo`, whose algorithms are ours (gloo_collectives.h). For comparison.
//
// An all-reduce is gloo's ring: each rank adds a part to what it received, and rounds at each of the size - 1
// steps. gloo has no reduce-scatter of this kind; RunCollective serves that one. A connection that breaks in
// the midst of a message is noticed at the deadline. Otherwise like RunCollective; returns false for a
// collective that gloo does not have. Throws PeerError, which knows no rank.
bool RunOwnCollective(GlooMesh& mesh, const Request& request);

}  // namespace gradsync::comm

#endif  // GRADSYNC_COMM_GLOO_GLOO_OWN_H_
