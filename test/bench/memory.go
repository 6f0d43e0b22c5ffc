package bench

import (
	"fmt"
	"slices"
)

const (
	memoryKeys  = 100_000 // how many keys the server's growth is divided by
	memoryCalls = 100     // on a busy key
)

// memory compares the MEMORY USAGE of a key, and the server's growth with each key.
func (s *Setting) memory() Table {
	table := Table{
		Title:   "Bytes per key",
		Columns: []string{"key of", "MEMORY USAGE", "growth of the server", "growth / SET PX"},
		Note: fmt.Sprintf("%s, keys of 16 bytes, SET PX of 19 digits. MEMORY USAGE after %d calls. Growth: used_memory over "+
			"%s keys of one call, with the tables that hold keys and expiries.", s.server, memoryCalls, thousands(memoryKeys)),
	}
	reference := 0.0
	for _, c := range Cases(s.Alternatives()) {
		// These store the same values as the other rows.
		left := slices.Contains([]string{"reserve", "take", "reserve3", "complete-script"}, c.Name)
		if left || c.OnlyCounted || c.Case == "limited" || c.Yardstick && c.Name != Reference {
			continue
		}
		s.Progress("memory: %s", c.Title)
		usage, growth := s.memoryOf(c)
		if c.Name == Reference { // which is the first
			reference = growth
		}
		table.Rows = append(table.Rows, []string{c.Title, thousands(usage), thousands(growth),
			fmt.Sprintf("%.2f", growth/reference)})
	}
	return table
}

func (s *Setting) memoryOf(c Case) (usage, growth float64) {
	client := s.Start(s.moduleOf(c.Peer), nil)
	defer client.Close()
	names := keys("key:", memoryKeys)
	client.prepare(c, names[:1])
	// The first pass does not count: it makes buffers and tables that stay.
	for range 2 {
		client.Do("FLUSHALL", "SYNC")
		before := client.Info("used_memory")
		for some := range slices.Chunk(names, batch) {
			client.expect(c, some...)
		}
		growth = (client.Info("used_memory") - before) / memoryKeys
	}
	client.Do("FLUSHALL", "SYNC")
	for range memoryCalls {
		client.expect(c, names[0])
	}
	// redis_rate adds a prefix to its key.
	bytes, _ := client.Do("MEMORY", "USAGE", client.Do("RANDOMKEY")).(int64)
	return float64(bytes), growth
}
