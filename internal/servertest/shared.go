package servertest

import (
	"context"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

var shared struct {
	start  sync.Once
	server *Server
	err    error
}

// Shared is the one server of a package, with the debug module: without keys, its clock at
// [Epoch]. Its tests are not parallel. TestMain ends it with [EndShared].
func Shared(t testing.TB) (*Server, *redis.Client) {
	t.Helper()
	module := DebugModule(t)
	shared.start.Do(func() { shared.server, shared.err = Run(Options{Module: module}) })
	require.NoError(t, shared.err)
	client := shared.server.Client(t)
	require.NoError(t, client.FlushAll(context.Background()).Err())
	ClockOf(client).Set(t, Epoch)
	return shared.server, client
}

// EndShared ends the server if a test has started it.
func EndShared() {
	if shared.server != nil {
		shared.server.Close()
	}
}
