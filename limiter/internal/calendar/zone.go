package calendar

import (
	"sync"
	"time"
)

// zones has one Location for each zone, so that calendars of one zone are equal.
var zones = struct {
	mutex sync.Mutex
	known map[zone]*time.Location
}{known: map[zone]*time.Location{}}

// A zone tells Locations apart. The name alone does not: programs make up names for zones of a
// fixed offset, which may be names of zones that have a summer time.
type zone struct {
	name                  string
	epoch, winter, summer int // the offsets at three instants, in seconds
}

// maxZones bounds the memory if a program makes up new zones all the time. It is above the 600
// zones of tzdata. Any further Location is a zone of its own.
const maxZones = 1000

// canonical returns the Location that stands for all Locations of the same zone.
func canonical(location *time.Location) *time.Location {
	if location == nil {
		return nil
	}
	offset := func(year int, month time.Month) int {
		_, seconds := time.Date(year, month, 1, 0, 0, 0, 0, time.UTC).In(location).Zone()
		return seconds
	}
	z := zone{location.String(), offset(1970, time.January), offset(2026, time.January), offset(2026, time.July)}
	zones.mutex.Lock()
	defer zones.mutex.Unlock()
	known := zones.known[z]
	if known != nil {
		return known
	}
	if len(zones.known) < maxZones {
		zones.known[z] = location
	}
	return location
}
