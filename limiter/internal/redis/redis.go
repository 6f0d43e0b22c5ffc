// Package redis is the backend that asks Redis or Valkey: by the commands of the module funnel, or by a script if the
// server lacks or denies them. Both keep the same value under the same key, so nodes may differ.
//
// Each call (ask.go) is one command (send.go): a command of the module (module.go), or EVALSHA of a script (script.go).
// A short script, take.lua, serves Reserve, Take and Peek of one funnel (take.go), and leaves most of the reply to
// package gcra. All other calls go to the complete script.
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
	client   Client
	cluster  cluster // the client, or nil if it is not one of a cluster
	only     string  // backend.Module or backend.Script, or empty for both
	complete script

	now           func() time.Duration // since the Limiter was made
	wall          func() time.Time     // which tells the periods of quotas
	moduleFrom    atomic.Int64         // when the module's commands are sent again, by that clock
	lacksReadOnly atomic.Bool          // the server lacks EVALSHA_RO, as Redis 6.2 does
	answered      atomic.Bool          // so the client of a cluster knows its nodes
	reloadFrom    atomic.Int64         // when the nodes of a cluster may be asked for again, by that clock
}

// New returns a backend that uses client. It asks by the module or the script only, if only is [backend.Module] or
// [backend.Script], and otherwise by both. Complete is the text of the complete script, now a monotonic clock, and wall
// the clock that tells the periods of quotas.
func New(client Client, only, complete string, now func() time.Duration, wall func() time.Time) *Server {
	ofCluster, _ := client.(cluster)
	return &Server{client: client, cluster: ofCluster, only: only, complete: newScript(complete), now: now, wall: wall}
}

// A script as it is sent. Strings that become any would be allocated for each call.
type script struct{ text, hash any }

func newScript(text string) script { return script{text, redis.NewScript(text).Hash()} }
