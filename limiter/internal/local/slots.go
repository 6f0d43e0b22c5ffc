package local

import (
	"cmp"
	"slices"

	"funnel/slots"
)

// holders are the holders of slots under one key. The slots are in the order in which they end, so
// a binary search counts them: no call looks at each slot. Times are milliseconds since the Unix
// epoch.
type holders struct {
	byEnd []slot
	ends  map[string]int64 // by holder
}

type slot struct {
	end    int64
	holder string
}

// maxForgotten bounds how many ended slots one call removes, so that no call has to clean up after
// a program that has crashed with a million slots. As each call adds one slot at most, the ended
// slots become fewer all the same.
const maxForgotten = 100

// read returns the state of the slots for one holder, and removes some slots that have ended. Nil
// holders have no slots.
func (h *holders) read(holder string, now int64) (state slots.State) {
	if h == nil {
		return state
	}
	ended, _ := slices.BinarySearchFunc(h.byEnd, slot{end: now + 1}, compare)
	forgotten := min(ended, maxForgotten)
	for _, old := range h.byEnd[:forgotten] {
		delete(h.ends, old.holder)
	}
	h.byEnd = h.byEnd[forgotten:]
	running := h.byEnd[ended-forgotten:]
	state.Running = int64(len(running))
	own := h.ends[holder]
	if own > now {
		state.Own = own
	}
	state.First, state.Last = endOfAnother(running, holder), 0
	for i := len(running) - 1; i >= 0 && state.Last == 0; i-- {
		state.Last = endOfAnother(running[i:i+1], holder)
	}
	return state
}

// endOfAnother returns the end of the first of these slots that another holder has, or 0.
func endOfAnother(running []slot, holder string) int64 {
	for _, other := range running { // looks at two slots at most, because a holder has only one
		if other.holder != holder {
			return other.end
		}
	}
	return 0
}

// set sets the end of a holder's slot. 0 removes the slot.
func (h *holders) set(holder string, end int64) {
	old, has := h.ends[holder]
	if has {
		at, found := slices.BinarySearchFunc(h.byEnd, slot{old, holder}, compare)
		if found {
			h.remove(at)
		}
		delete(h.ends, holder)
	}
	if end > 0 {
		at, _ := slices.BinarySearchFunc(h.byEnd, slot{end, holder}, compare)
		h.byEnd = slices.Insert(h.byEnd, at, slot{end, holder})
		h.ends[holder] = end
	}
}

// remove removes the slot at an index. It moves the slots before it or the slots after it,
// whichever are fewer: most slots that are renewed are among the first.
func (h *holders) remove(at int) {
	if at > len(h.byEnd)/2 {
		h.byEnd = slices.Delete(h.byEnd, at, at+1)
		return
	}
	copy(h.byEnd[1:at+1], h.byEnd[:at])
	h.byEnd[0] = slot{}
	h.byEnd = h.byEnd[1:]
}

// last returns the end of the last slot, or 0 if there is no slot.
func (h *holders) last() int64 {
	if h == nil || len(h.byEnd) == 0 {
		return 0
	}
	return h.byEnd[len(h.byEnd)-1].end
}

func compare(a, b slot) int {
	return cmp.Or(cmp.Compare(a.end, b.end), cmp.Compare(a.holder, b.holder))
}
