package answer

// namesAKeyTwice writes an error if two funnels have the same key. It names the first
// funnel whose key has occurred before.
//
// Each byte is compared at most once more than there are keys with the same bytes after
// it, so the time is linear in the length of all keys, however alike they are. Two keys
// that differed from the same third key at different places are known to differ; if they
// differed at the same place, they are compared from there on. Comparing starts at the
// ends because keys are more likely to begin alike.
//
//go:nosplit
func (call *Call) namesAKeyTwice() bool {
	for second := uint(0); second < MostFunnels && second < uint(call.Length); second++ {
		later := &call.Funnels[second]
		later.ComparedWith, later.Alike = 0, 0
		for first := uint(0); first < second; first++ {
			earlier := &call.Funnels[first]
			a, b := earlier.Key, later.Key
			if len(a) != len(b) || earlier.ComparedWith != later.ComparedWith || earlier.Alike != later.Alike {
				continue
			}
			later.ComparedWith = uint64(first) + 1
			// Behind the first byte, at wraps around.
			at := uint64(len(b)) - 1 - later.Alike
			for at < uint64(len(a)) && at < uint64(len(b)) && a[at] == b[at] {
				at--
			}
			later.Alike = uint64(len(b)) - 1 - at
			if later.Alike == uint64(len(b)) {
				call.setErrorFunnel(second)
				call.fail(keyTwice)
				return true
			}
		}
	}
	return false
}
