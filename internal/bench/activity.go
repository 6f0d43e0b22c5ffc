package bench

import (
	"path/filepath"
	"strconv"
)

// An Activity is what the threads of a server did, per call: the time that they
// spent on processors, all together, and how often those woke up that do not execute
// commands, which are the server's own for the background and those of Go.
type Activity struct {
	Microseconds float64 `json:"cpu_microseconds_per_call"`
	WakeUps      float64 `json:"wake_ups_of_other_threads_per_call"`
}

// activityOf reads what the threads of a process have done since they started, for
// one call.
func activityOf(pid int) (Activity, error) {
	var sum Activity
	folders, err := threads(pid)
	if err != nil {
		return sum, err
	}
	for _, folder := range folders {
		nanoseconds, err := numberBehind(filepath.Join(folder, "schedstat"), "")
		if err != nil {
			return sum, err
		}
		sum.Microseconds += nanoseconds / 1e3
		if filepath.Base(folder) == strconv.Itoa(pid) {
			continue
		}
		switches, err := numberBehind(filepath.Join(folder, "status"), "voluntary_ctxt_switches:")
		if err != nil {
			return sum, err
		}
		sum.WakeUps += switches
	}
	return sum, nil
}

// during measures the activity of a server while it is sent calls.
func (sum *Activity) during(server *Server, send func() error) error {
	before, err := activityOf(server.Pid())
	if err != nil {
		return err
	}
	if err := send(); err != nil {
		return err
	}
	after, err := activityOf(server.Pid())
	sum.Microseconds += after.Microseconds - before.Microseconds
	sum.WakeUps += after.WakeUps - before.WakeUps
	return err
}

func (sum Activity) per(calls float64) Activity {
	return Activity{sum.Microseconds / calls, sum.WakeUps / calls}
}
