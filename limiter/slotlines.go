package limiter

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"funnel/limiter/internal/line"
)

// slotLines are the lines in which callers of [Limiter.Acquire] wait. Callers who ask for the same
// slots stand in one line. A key may be in the slots of several lines, so lines also know which
// lines wait for a key.
type slotLines struct {
	*line.Lines[string, []Request]

	mutex   sync.Mutex
	waiting map[string]map[string]int // by the key of slots and by line: how many callers wait
}

func newSlotLines(now func() time.Duration) slotLines {
	return slotLines{Lines: line.New[string, []Request](now), waiting: map[string]map[string]int{}}
}

// lineOf names the line of callers who ask for these slots, in any order.
func lineOf(slots []slotsRow) string {
	names := make([]string, len(slots))
	for i, row := range slots {
		names[i] = fmt.Sprintf("%q %d %d", row.key, row.slots.Max, row.slots.TTL)
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

// join adds a caller to the end of the line for these slots, until it leaves. The place is nil if
// maxWaiting callers wait there already.
func (l *slotLines) join(slots []slotsRow, requests []Request, maxWaiting int) (
	place *line.Place[string, []Request], leave func()) {
	name := lineOf(slots)
	// Before it joins: a slot that is released once the caller is in the line has to wake it.
	l.count(name, slots, 1)
	place = l.Join(name, maxWaiting, requests)
	if place == nil {
		l.count(name, slots, -1)
		return nil, nil
	}
	return place, func() {
		place.Leave()
		l.count(name, slots, -1)
	}
}

func (l *slotLines) count(line string, slots []slotsRow, more int) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	for _, row := range slots {
		of := l.waiting[row.key]
		if of == nil {
			of = map[string]int{}
			l.waiting[row.key] = of
		}
		of[line] += more
		if of[line] == 0 {
			delete(of, line)
		}
		if len(of) == 0 {
			delete(l.waiting, row.key)
		}
	}
}

// slotFreed wakes the first caller of each line that waits for this key, because a slot has come
// free. Apart is an estimate of the time between two such events, or 0 if there is none.
func (l *slotLines) slotFreed(key string, apart time.Duration) {
	for _, line := range l.linesOf(key) {
		l.Released(line, apart)
	}
}

func (l *slotLines) linesOf(key string) (lines []string) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	for line := range l.waiting[key] {
		lines = append(lines, line)
	}
	return lines
}
