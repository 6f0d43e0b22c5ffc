package answer

// namesAKeyTwice writes an error if two funnels have the same key. It names the first
// funnel whose key has occurred before.
//
// Each byte is compared at most once more than there are keys with the same bytes after
// it, so the time is linear in the length of all keys, however alike they are. Two keys
// that differed from the same third key at different places are known to differ; if they
// differed at the same place, they are compared from there on.
//
//go:nosplit
func (call *Call) namesAKeyTwice() bool {
	for second := uint(0); second < MostFunnels && second < uint(call.Length); second++ {
		later := &call.Funnels[second]
		later.ComparedWith, later.Alike = 0, 0
		for first := uint(0); first < second; first++ {
			earlier := &call.Funnels[first]
			if len(earlier.Key) != len(later.Key) || earlier.ComparedWith != later.ComparedWith || earlier.Alike != later.Alike {
				continue
			}
			later.ComparedWith, later.Alike = uint64(first)+1, alike(earlier.Key, later.Key, later.Alike)
			if later.Alike == uint64(len(later.Key)) {
				call.name(second)
				call.Outcome.fail(keyTwice)
				return true
			}
		}
	}
	return false
}

// alike counts the equal bytes at the ends of two strings of the same length; so many are
// known. It starts at the ends because keys are more likely to begin alike, and compares
// eight bytes at a time where it can.
//
//go:nosplit
func alike(a, b string, known uint64) uint64 {
	length := uint64(len(a))
	if rest := length - known; rest <= uint64(len(a)) && rest <= uint64(len(b)) {
		a, b = a[:rest], b[:rest]
	}
	for len(a) >= 8 && len(b) >= 8 {
		restOfA, restOfB := a[:len(a)-8], b[:len(b)-8]
		if eightBytes(a[len(a)-8:]) != eightBytes(b[len(b)-8:]) {
			break
		}
		a, b = restOfA, restOfB
	}
	for len(a) > 0 && len(b) > 0 && a[len(a)-1] == b[len(b)-1] {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	return length - uint64(len(a))
}
