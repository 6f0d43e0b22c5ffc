package servertest

import (
	"context"
	"fmt"
	"strings"
	"testing"
)

// Import has a primary ask for the slots from 0 to last, as Redis does it since 8.4: they
// are streamed over, with what is written to them meanwhile, and change hands at one
// instant. It returns when every primary knows. The old owner keeps other slots, or else
// it becomes a replica.
func (c *Cluster) Import(t testing.TB, last int, to *ClusterNode) {
	t.Helper()
	c.do(t, to, "cluster", "migration", "import", 0, last)
	Await(t, pollInterval, "the slots change hands", func() error {
		tasks, err := to.Direct.Do(context.Background(), "cluster", "migration", "status", "all").Result()
		if err != nil {
			return err
		}
		for _, primary := range c.Primaries {
			members, err := primary.members()
			if err != nil {
				return err
			}
			if slots := members[to.ID].slots; len(slots) == 0 || !strings.HasPrefix(slots[0], "0-") {
				return fmt.Errorf("node %d sees node %d with %v; %v", primary.Port, to.Port, slots, tasks)
			}
		}
		return nil
	})
}
