// Package idle keeps a map small: each new entry removes some idle entries.
//
// To add an entry, a map first looks at a few entries that Go's map order chooses at random. If
// entries are added as fast as entries become idle, about a quarter of the map is idle. This needs
// no goroutine, and no list or heap beside the map that has to be kept in order.
package idle

import "maps"

const (
	// looks is how many entries Add looks at. It has to be more than one, because Add adds one
	// entry.
	looks = 4

	// A map of Go never frees memory, and is slow to range over if nearly all entries are gone. It
	// is copied if it has held shrinkFrom entries, and at most one in shrinkBy of these remains.
	shrinkFrom = 1024
	shrinkBy   = 8
)

// A Map is a map that removes idle entries. The zero Map is empty. If several goroutines use a Map,
// they need a lock.
type Map[Key comparable, Value any] struct {
	entries map[Key]Value
	peak    int // the largest number of entries since the map was made
}

// Get returns the value of a key, or the zero Value.
func (m *Map[Key, Value]) Get(key Key) Value { return m.entries[key] }

// Has reports whether the map has the key.
func (m *Map[Key, Value]) Has(key Key) bool {
	_, has := m.entries[key]
	return has
}

// Len returns the number of entries, idle ones included.
func (m *Map[Key, Value]) Len() int { return len(m.entries) }

// Set changes the value of a key in the map.
func (m *Map[Key, Value]) Set(key Key, value Value) { m.entries[key] = value }

// Add adds an entry, and removes others for which isIdle returns true.
func (m *Map[Key, Value]) Add(key Key, value Value, isIdle func(Key, Value) bool) {
	m.removeIdle(isIdle)
	if m.entries == nil || m.peak >= shrinkFrom && len(m.entries) <= m.peak/shrinkBy {
		m.entries = maps.Collect(maps.All(m.entries))
		m.peak = 0
	}
	m.entries[key] = value
	m.peak = max(m.peak, len(m.entries))
}

func (m *Map[Key, Value]) removeIdle(isIdle func(Key, Value) bool) {
	looked := 0
	for key, value := range m.entries {
		if isIdle(key, value) {
			delete(m.entries, key)
		}
		looked++
		if looked == looks {
			return
		}
	}
}
