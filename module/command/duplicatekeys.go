package command

import "funnel/internal/errortext"

// hasDuplicateKeys writes an error if two rows have the same key. The error names the first row
// whose key has occurred before.
//
// The time is linear in the length of all keys, however similar the keys are. Two keys that
// differed from the same third key at different places are known to differ. If they differed at the
// same place, the comparison goes on from that place. So a byte is compared at most once for each
// key that has the same bytes after it, and once more. Comparisons start at the ends, because keys
// are more likely to begin alike.
//
//go:nosplit
func (c *Call) hasDuplicateKeys() bool {
	c.ComparedBytes = 0
	for second := uint(0); second < MaxRows && second < uint(c.Length); second++ {
		later := &c.Rows[second]
		later.ComparedWith, later.Alike = 0, 0
		for first := uint(0); first < second; first++ {
			earlier := &c.Rows[first]
			a, b := earlier.Words[0], later.Words[0]
			if len(a) != len(b) || earlier.ComparedWith != later.ComparedWith || earlier.Alike != later.Alike {
				continue
			}
			later.ComparedWith = uint64(first) + 1
			// If all bytes are the same, at wraps around to the largest number.
			start := uint64(len(b)) - 1 - later.Alike
			at := start
			for at < uint64(len(a)) && at < uint64(len(b)) && a[at] == b[at] {
				at--
			}
			c.ComparedBytes += start - at + 1
			later.Alike = uint64(len(b)) - 1 - at
			if later.Alike == uint64(len(b)) {
				c.setErrorRow(second)
				c.fail(errortext.DuplicateKey)
				return true
			}
		}
	}
	return false
}
