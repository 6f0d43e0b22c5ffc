package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// residentMemory is the resident memory of a process, and the part of it that
// belongs to no file, in KiB.
func residentMemory(pid int) (resident, private float64, err error) {
	file := fmt.Sprintf("/proc/%d/status", pid)
	if resident, err = numberBehind(file, "VmRSS:"); err != nil {
		return 0, 0, err
	}
	private, err = numberBehind(file, "RssAnon:")
	return resident, private, err
}

// threadNames lists the threads of a process by name, sorted.
func threadNames(pid int) ([]string, error) {
	folders, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
	if err != nil {
		return nil, err
	}
	var names []string
	for _, folder := range folders {
		// A thread may end while we look.
		if name, err := os.ReadFile(filepath.Join(folder, "comm")); err == nil {
			names = append(names, strings.TrimSpace(string(name)))
		}
	}
	slices.Sort(names)
	return names, nil
}

// numberBehind reads the first number behind a word at the start of a line.
func numberBehind(file, word string) (float64, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, fmt.Errorf("processes are watched on Linux only: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, found := strings.CutPrefix(line, word); found {
			if fields := strings.Fields(rest); len(fields) > 0 {
				return strconv.ParseFloat(fields[0], 64)
			}
		}
	}
	return 0, fmt.Errorf("%s: no number behind %q", file, word)
}
