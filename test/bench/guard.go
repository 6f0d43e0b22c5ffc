package bench

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// The regression guard.
//
// instructions.txt holds the counts that a person has committed, per version of
// the server. What is compared is not the count itself but its ratio to a command
// of the server that was counted in the same run: the same version of Redis,
// compiled by somebody else, executes a few per cent more or less, in SET as in
// CL.THROTTLE. Across versions that does not hold, since they do different things
// for the two; so a version that the file does not know is not judged.

// GuardTolerance is by how much a ratio may exceed the committed one: counts repeat
// to within 0.5%, and what compilers differ by after the ratio is of that order.
const GuardTolerance = 0.03

// guarded are the counts that are compared, each with the yardstick that does most
// of what it does: an allowed call writes a key with an expiry, a limited one
// replies five integers.
var guarded = []struct{ id, yardstick string }{
	{"throttle/allowed", "set"},
	{"throttle/limited", "noop"},
}

// GuardAlternatives are the names of what the guard has to count.
var GuardAlternatives = []string{"set", "noop", "throttle"}

// Committed are the counts of instructions.txt: by server, then by the ID of the
// count.
type Committed map[string]map[string]float64

// ParseCommitted reads instructions.txt: lines of server, version, ID and count,
// in any order; empty lines and lines that begin with # do not count.
func ParseCommitted(text string) (Committed, error) {
	committed := Committed{}
	number := 0
	for line := range strings.Lines(text) {
		number++
		words := strings.Fields(line)
		if len(words) == 0 || words[0][0] == '#' {
			continue
		}
		var count float64
		var err error
		if len(words) == 4 {
			count, err = strconv.ParseFloat(words[3], 64)
		}
		if len(words) != 4 || err != nil || count <= 0 {
			return nil, fmt.Errorf("line %d must be server, version, name and count, as in 'redis 7.0.15 set 9693', not '%s'", number, strings.TrimSpace(line))
		}
		server := words[0] + " " + words[1]
		if committed[server] == nil {
			committed[server] = map[string]float64{}
		}
		committed[server][words[2]] = count
	}
	return committed, nil
}

// Lines words counts for instructions.txt.
func Lines(server string, counts []InstructionCount) string {
	var text strings.Builder
	for _, count := range counts {
		fmt.Fprintf(&text, "%s %-18s %6.0f\n", server, count.ID(), count.PerCall)
	}
	return text.String()
}

// A Verdict is the judgement on one count.
type Verdict struct {
	ID, Yardstick string

	// Committed and Measured are ratios to the yardstick.
	Committed, Measured float64
}

// Rise is by which share the ratio has risen: 0.03 is three per cent.
func (v Verdict) Rise() float64 { return v.Measured/v.Committed - 1 }

// Failed says that the rise is not tolerated.
func (v Verdict) Failed() bool { return v.Rise() > GuardTolerance }

// Judge compares counts with those committed for this server. It returns nothing
// if there are none, and an error if they are incomplete.
func (c Committed) Judge(server string, counts []InstructionCount) ([]Verdict, error) {
	committed := c[server]
	if committed == nil {
		return nil, nil
	}
	measured := map[string]float64{}
	for _, count := range counts {
		measured[count.ID()] = count.PerCall
	}
	var verdicts []Verdict
	for _, g := range guarded {
		for _, id := range []string{g.id, g.yardstick} {
			if committed[id] == 0 || measured[id] == 0 {
				return nil, fmt.Errorf("'%s' of %s is needed, but was not %s", id, server,
					map[bool]string{true: "committed", false: "measured"}[committed[id] == 0])
			}
		}
		verdicts = append(verdicts, Verdict{g.id, g.yardstick, committed[g.id] / committed[g.yardstick], measured[g.id] / measured[g.yardstick]})
	}
	return verdicts, nil
}

// Servers lists the versions that have been committed.
func (c Committed) Servers() []string {
	var servers []string
	for server := range c {
		servers = append(servers, server)
	}
	slices.Sort(servers)
	return servers
}
