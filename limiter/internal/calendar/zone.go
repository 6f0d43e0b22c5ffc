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

// A zone is what tells zones apart: programs make up names for zones of a fixed offset.
type zone struct {
	name   string
	offset int // in 1970, in seconds
}

// maxZones bounds the memory of a program that makes up zones. The zones beyond are told apart by their address.
const maxZones = 1000

// canonical returns the Location that stands for all Locations of that zone.
func canonical(location *time.Location) *time.Location {
	if location == nil {
		return nil
	}
	_, offset := time.Unix(0, 0).In(location).Zone()
	z := zone{location.String(), offset}
	zones.mutex.Lock()
	defer zones.mutex.Unlock()
	if known := zones.known[z]; known != nil {
		return known
	}
	if len(zones.known) < maxZones {
		zones.known[z] = location
	}
	return location
}
