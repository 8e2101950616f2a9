// The functions that compute/ defines for the instruction set that is being compiled.
#pragma once
#include "../common/norm.h"
#include "../common/planes.h"

namespace normkit {
namespace NORMKIT_ISA {

void widen(const Rows& row, int64_t count, bool plus_one, Dtype to, void* out);
void narrow(const double* values, int64_t count, Dtype to, void* out);
void norm_forward(const Forward& call);
void norm_backward(const Backward& call);
void gated_forward(const Forward& call);
void gated_backward(const Backward& call);
void channel_forward(const ChannelForward& call);
void channel_backward(const ChannelBackward& call);
void groups_forward(const GroupsForward& call);
void groups_backward(const GroupsBackward& call);

}  // namespace NORMKIT_ISA
}  // namespace normkit
