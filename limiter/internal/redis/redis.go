// Package redis has the backend that asks Redis or Valkey. It sends the commands of the module
// funnel, or a script if the server lacks or denies them. Both store the same value under the same
// key, so nodes may differ.
//
// A call (ask.go) is one command (send.go): a command of the module, or EVALSHA of a script. A
// short script, take.lua, serves Reserve, Take and Peek of one funnel (take.go); package gcra
// computes most of its reply. All other calls go to the complete script, funnels.lua.
//
// A call takes a second command if the first one was not decided: if the server does not know the
// module's command, or the script by its hash; if take.lua cannot decide the call; and if a
// calendar's period has ended by the server's clock.
package redis

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// A Client sends commands, as the clients of go-redis do.
type Client interface {
	Process(ctx context.Context, command redis.Cmder) error
}

// A Server is Redis. Make one with [New].
type Server struct {
	client  Client
	cluster cluster // the client, or nil if it is not the client of a cluster
	ring    ring    // the client, or nil if it is not a ring
	only    string  // backend.Module or backend.Script, or empty for both

	// notesWriting says that the client asks for the bytes of a command when it writes the command.
	// An AutoPipeliner also asks before that, to count them.
	notesWriting bool

	// isGoRedis says that the client is go-redis itself, which writes no command without asking for
	// its bytes. A wrapper may write the words in another way.
	isGoRedis bool

	now           func() time.Duration // since the Limiter was made
	wall          func() time.Time     // tells which period of a quota runs
	lacksReadOnly atomic.Bool          // the server lacks EVALSHA_RO, as Redis 6.2 does
	answered      atomic.Bool          // a server has answered, so the client of a cluster knows its nodes
	reloadFrom    atomic.Int64         // when reload may ask again, by now

	moduleFrom [len(commandNames)]atomic.Int64 // when the module's command of an operation is sent again, by now
}

// New returns a backend that sends commands by client. If only is [backend.Module] or
// [backend.Script], it sends only commands of the module or only scripts, and otherwise both. Now
// is a monotonic clock, and wall is the clock that tells which period of a quota runs.
func New(client Client, only string, now func() time.Duration, wall func() time.Time) *Server {
	ofCluster, _ := client.(cluster)
	ofRing, _ := client.(ring)
	_, countsBytes := client.(*redis.AutoPipeliner)
	_, _, _, isGoRedis := deadlinesOf(client)
	return &Server{client: client, cluster: ofCluster, ring: ofRing, only: only, notesWriting: !countsBytes,
		isGoRedis: isGoRedis, now: now, wall: wall}
}

// A script has its text and its hash as any: to convert a string for each call would allocate
// memory.
type script struct{ text, hash any }

func newScript(text string) script { return script{text, redis.NewScript(text).Hash()} }
