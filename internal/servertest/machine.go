package servertest

import (
	"fmt"
	"os"
	"strings"
)

// A Machine tells what this machine has done since it started, for benchmarks: a figure means
// little if another program, or another machine on the same host, used the processors meanwhile.
type Machine struct {
	load         string // means over 1, 5 and 15 minutes of the programs that run or wait to run
	steal, total int    // ticks of all processors; steal went to other machines
}

// ReadMachine reads what this machine has done until now.
func ReadMachine() (m Machine, err error) {
	load, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return m, err
	}
	m.load = strings.Join(strings.Fields(string(load))[:3], " ")
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return m, err
	}
	var user, nice, system, idle, iowait, irq, softirq int
	_, err = fmt.Sscanf(string(stat), "cpu %d %d %d %d %d %d %d %d",
		&user, &nice, &system, &idle, &iowait, &irq, &softirq, &m.steal)
	m.total = user + nice + system + idle + iowait + irq + softirq + m.steal
	return m, err
}

// Since says how busy the machine was between before and m.
func (m Machine) Since(before Machine) string {
	percent := 100 * float64(m.steal-before.steal) / float64(max(1, m.total-before.total))
	return fmt.Sprintf("load %s before and %s after; %.1f %% of the time went to other machines",
		before.load, m.load, percent)
}
