package calendar

import (
	"encoding/binary"
	"sync"
	"time"
)

// zones has one Location for each zone, so that calendars of one zone are equal.
var zones = struct {
	mutex sync.Mutex
	known map[zone]*time.Location
	seen  map[*time.Location]*time.Location // what canonical has returned
}{known: map[zone]*time.Location{}, seen: map[*time.Location]*time.Location{}}

// A zone tells Locations apart. The name alone does not: programs make up names for zones of a
// fixed offset, which may be names of zones that have a summer time. And a program that runs while
// tzdata is updated loads a zone of the same name with other rules.
type zone struct{ name, offsets string }

// The offsets of zones are compared within these years. The commands accept no end before 1970, and
// rules that are known today go on for ever: what differs before 2050 is seen.
const firstYear, lastYear = 1970, 2050

// maxZones bounds the memory if a program makes up new zones all the time. Any further Location is
// a zone of its own.
const maxZones = 1000

// canonical returns the Location that stands for all Locations of the same zone.
func canonical(location *time.Location) *time.Location {
	if location == nil {
		return nil
	}
	zones.mutex.Lock()
	defer zones.mutex.Unlock()
	found := zones.seen[location]
	if found != nil {
		return found
	}
	z := zone{location.String(), offsetsOf(location)}
	found = zones.known[z]
	if found == nil {
		found = location
		if len(zones.known) < maxZones {
			zones.known[z] = location
		}
	}
	if len(zones.seen) >= maxZones { // a program that loads its zone for each call
		clear(zones.seen)
	}
	zones.seen[location] = found
	return found
}

// offsetsOf returns the offsets of a zone, and when each begins.
func offsetsOf(location *time.Location) string {
	var offsets []byte
	at, end := dateOf(firstYear, time.January, 1), dateOf(lastYear, time.January, 1)
	for {
		_, seconds := at.In(location).Zone()
		offsets = binary.AppendVarint(binary.AppendVarint(offsets, int64(seconds)), at.Unix())
		_, next := at.In(location).ZoneBounds()
		if next.IsZero() || !next.Before(end) {
			return string(offsets)
		}
		if !next.After(at) {
			next = at.Truncate(aDay).Add(aDay) // see beginOf
		}
		at = next
	}
}
