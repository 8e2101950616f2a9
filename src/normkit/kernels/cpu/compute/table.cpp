// One table for each instruction set: normkit_table_avx2 and so on.
#include "table.h"

#define NORMKIT_NAME_(isa) normkit_table_##isa
#define NORMKIT_NAME(isa) NORMKIT_NAME_(isa)

extern "C" const normkit::Table NORMKIT_NAME(NORMKIT_ISA);
const normkit::Table NORMKIT_NAME(NORMKIT_ISA) = {
    normkit::NORMKIT_ISA::widen,
    normkit::NORMKIT_ISA::narrow,
    normkit::NORMKIT_ISA::norm_forward,
    normkit::NORMKIT_ISA::norm_backward,
    normkit::NORMKIT_ISA::gated_forward,
    normkit::NORMKIT_ISA::gated_backward,
    normkit::NORMKIT_ISA::channel_forward,
    normkit::NORMKIT_ISA::channel_backward,
    normkit::NORMKIT_ISA::groups_forward,
    normkit::NORMKIT_ISA::groups_backward,
};
