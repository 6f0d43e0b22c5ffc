package local

import "funnel/internal/funnels"

// SetOf is what package limiter uses of a set.
func SetOf(f *Funnels) *funnels.Set { return f.set }
