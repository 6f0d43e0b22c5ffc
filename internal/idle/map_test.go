package idle_test

import (
	"testing"

	"funnel/internal/idle"
)

func TestEntriesThatAreUsedStay(t *testing.T) {
	var m idle.Map[int, int]
	for key := range 10_000 {
		m.Add(key, 2*key, func(_, value int) bool { return value%2 == 1 })
	}
	m.Set(7, 100)
	if m.Len() != 10_000 || m.Get(7) != 100 || m.Get(8) != 16 || !m.Has(9_999) || m.Has(10_000) || m.Get(10_000) != 0 {
		t.Errorf("entries are gone or wrong: len %d, get %d and %d", m.Len(), m.Get(7), m.Get(8))
	}
}

// Idle entries go. A map that was large and has become small is copied, and keeps the entries in
// use.
func TestMapShrinks(t *testing.T) {
	var m idle.Map[int, int]
	for key := range 5_000 {
		m.Add(key, key, func(int, int) bool { return false })
	}
	for key := range 20_000 {
		m.Add(-key-1, 2, func(key, _ int) bool { return key >= 10 && key < 5_000 || key < -100 })
	}
	for key := range 10 {
		if m.Get(key) != key {
			t.Errorf("entry %d is %d after the map shrank", key, m.Get(key))
		}
	}
	if m.Len() > 1_000 {
		t.Errorf("%d entries remain", m.Len())
	}
}
