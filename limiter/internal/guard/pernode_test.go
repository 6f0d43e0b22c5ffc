package guard

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Each node has a guard of its own, which stays the same. Addresses of nodes that come and go take
// no memory without bound.
func TestGuardsOfNodesAreBounded(t *testing.T) {
	redis := fakeRedis{} // nobody asks
	nodes := NewPerNode(redis, newGuarded(redis).undo, time.Second, func() time.Duration { return 0 })
	require.Same(t, nodes.first, nodes.guardOf(""), "no node is known")
	require.Same(t, nodes.guardOf("a"), nodes.guardOf("a"))
	require.NotSame(t, nodes.guardOf("a"), nodes.guardOf("b"))
	for node := range 2*maxNodes + 1 {
		require.NotNil(t, nodes.guardOf(fmt.Sprint(node)))
		require.LessOrEqual(t, len(nodes.guards), maxNodes)
	}
}
