package local

import (
	"cmp"
	"slices"

	"funnel/gcra"
)

// slots are those of one key. They are kept in the order in which they end, and so are counted by a binary search: no
// call looks at each of them. Times are milliseconds since the Unix epoch.
type slots struct {
	byEnd []slot
	ends  map[string]int64 // by holder
}

type slot struct {
	end    int64
	holder string
}

// maxForgotten bounds how many ended slots one call removes.
const maxForgotten = 100

// read tells an item which slots run, and removes some of those that have ended. Nil are no slots.
func (s *slots) read(holder string, item *gcra.Item, now int64) {
	if s == nil {
		return
	}
	ended, _ := slices.BinarySearchFunc(s.byEnd, slot{end: now + 1}, compare)
	forgotten := min(ended, maxForgotten)
	for _, old := range s.byEnd[:forgotten] {
		delete(s.ends, old.holder)
	}
	s.byEnd = s.byEnd[forgotten:]
	running := s.byEnd[ended-forgotten:]
	item.Running = int64(len(running))
	if end := s.ends[holder]; end > now {
		item.TAT = end
	}
	for _, other := range running[:min(2, len(running))] { // one of them may be the holder's own
		if other.holder != holder {
			item.First = other.end
			break
		}
	}
	for _, other := range slices.Backward(running[max(0, len(running)-2):]) {
		if other.holder != holder {
			item.Last = other.end
			break
		}
	}
}

// set sets when a holder's slot ends; 0 ends it.
func (s *slots) set(holder string, end int64) {
	if old, has := s.ends[holder]; has {
		if at, found := slices.BinarySearchFunc(s.byEnd, slot{old, holder}, compare); found {
			s.byEnd = slices.Delete(s.byEnd, at, at+1)
		}
		delete(s.ends, holder)
	}
	if end > 0 {
		at, _ := slices.BinarySearchFunc(s.byEnd, slot{end, holder}, compare)
		s.byEnd = slices.Insert(s.byEnd, at, slot{end, holder})
		s.ends[holder] = end
	}
}

// last is when the last slot ends, or 0 if there is none.
func (s *slots) last() int64 {
	if len(s.byEnd) == 0 {
		return 0
	}
	return s.byEnd[len(s.byEnd)-1].end
}

func compare(a, b slot) int {
	return cmp.Or(cmp.Compare(a.end, b.end), cmp.Compare(a.holder, b.holder))
}
