#include "key.h"

const struct kind_functions *const kinds[] = {
    [FUNNEL] = &funnel_functions,
    [SLOTS] = &slots_functions,
    [QUOTA] = &quota_functions,
};
