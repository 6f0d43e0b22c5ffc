package bench

import (
	"bufio"
	"os"
	"runtime"
	"strings"
	"time"
)

// A Report is all that one run of funnel-bench has measured: a part is empty when
// it was left out or not reached.
type Report struct {
	Environment  Environment        `json:"environment"`
	Instructions []InstructionCount `json:"instructions,omitempty"`
	Memory       []Memory           `json:"memory,omitempty"`
	Throughput   []WallClock        `json:"throughput,omitempty"`
	Latency      []WallClock        `json:"latency,omitempty"`
	Tail         *Tail              `json:"tail,omitempty"`
	Footprint    *Footprint         `json:"footprint,omitempty"`
	Scale        []Scale            `json:"scale,omitempty"`
	Load         Load               `json:"load"`
}

// An Environment is what the figures were taken with.
type Environment struct {
	Time      time.Time `json:"time"`
	Server    string    `json:"server"`
	Module    string    `json:"module"`
	Peer      string    `json:"peer,omitempty"`
	Valgrind  string    `json:"valgrind,omitempty"`
	Go        string    `json:"go"`
	System    string    `json:"system"`
	Processor string    `json:"processor"`
	Cores     int       `json:"cores"`
}

// A Load is the load of the wall-clock parts.
type Load struct {
	Clients  int     `json:"clients"`
	Pipeline int     `json:"pipeline"`
	Keys     int64   `json:"keys"`
	Limited  float64 `json:"share_of_limited_calls"`
	Rounds   int     `json:"rounds"`
	Round    string  `json:"round"`
}

// NewEnvironment describes this machine.
func NewEnvironment() Environment {
	return Environment{
		Time:      time.Now().UTC().Truncate(time.Second),
		Go:        runtime.Version(),
		System:    runtime.GOOS + "/" + runtime.GOARCH,
		Processor: processorName(),
		Cores:     runtime.NumCPU(),
	}
}

func processorName() string {
	file, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return "unknown"
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		if name, value, found := strings.Cut(lines.Text(), ":"); found && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}
