package redis

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"funnel/internal/call"
	"funnel/limiter/internal/backend"
)

// send sends the words of a command, and returns the reply. It waits for the reply even if the
// client pipelines and returns at once. It sends nothing if ctx is done. Without an answer, the
// error says what is known about the command: see [Server.unanswered]. The key is one of the
// command.
func (s *Server) send(ctx context.Context, key string, words []any, isRepeatable bool) (any, error) {
	err := ctx.Err()
	if err != nil {
		return nil, err
	}
	var last *lastWord
	if s.notesWriting {
		last = noteWriting(words)
	}
	command := redis.NewCmd(ctx, words...)
	err = s.clientFor(ctx).Process(ctx, sendable(command, isRepeatable))
	if err == nil {
		err = command.Err()
	}
	if IsAnswered(err) {
		return command.Val(), err
	}
	err = s.unanswered(key, err, last.isWritten(), isRepeatable)
	if !errors.Is(err, backend.ErrInProcess) {
		s.reload(ctx)
	}
	return nil, err
}

// clientFor returns the client that sends the commands of a context.
func (s *Server) clientFor(ctx context.Context) Client {
	if s.ring != nil {
		shard, is := ctx.Value(shardKey{}).(*redis.Client)
		if is {
			return shard
		}
	}
	return s.client
}

// sendable returns a command in the form in which it is sent.
func sendable(command *redis.Cmd, isRepeatable bool) redis.Cmder {
	if isRepeatable {
		return command
	}
	return unrepeated{command}
}

// unrepeated is a command that go-redis does not repeat, neither after a lost answer nor after a
// reply such as LOADING. Go-redis still follows MOVED and ASK, and asks another node after
// READONLY: a node that replies so has not executed the command. Hooks of go-redis get this type
// instead of *redis.Cmd.
type unrepeated struct{ *redis.Cmd }

// NoRetry tells go-redis not to repeat the command.
func (unrepeated) NoRetry() bool { return true }

// run runs a script by its hash, or by its text if the server lacks it. It fills in the first two
// arguments.
func (s *Server) run(ctx context.Context, c *backend.Call, script *script, args []any) (any, error) {
	reply, err := s.eval(ctx, c, "evalsha", script.hash, args)
	if err != nil && redis.HasErrorPrefix(err, "NOSCRIPT") {
		reply, err = s.eval(ctx, c, "eval", script.text, args)
	}
	return reply, err
}

// eval sends EVALSHA or EVAL. For a peek it sends EVALSHA_RO or EVAL_RO, which replicas execute,
// too.
func (s *Server) eval(ctx context.Context, c *backend.Call, name string, script any, args []any) (any, error) {
	readsOnly := c.Operation == call.Peek && !s.lacksReadOnly.Load()
	args[0], args[1] = name, script
	if readsOnly {
		args[0] = name + "_ro"
	}
	reply, err := s.send(ctx, c.Rows[0].Key, args, c.IsRepeatable())
	if readsOnly && isMissing(err) {
		s.lacksReadOnly.Store(true)
		return s.eval(ctx, c, name, script, args)
	}
	return reply, err
}

// A cluster is a client that knows which node has which keys, as *redis.ClusterClient does.
type cluster interface {
	MasterForKey(ctx context.Context, key string) (*redis.Client, error)
	ReloadState(ctx context.Context)
}

// A ring is a client that knows which shard has which keys, as *redis.Ring does.
type ring interface {
	GetShardClientForKey(key string) (*redis.Client, error)
}

// IsSpread reports whether the keys of a call may be on several nodes.
func (s *Server) IsSpread() bool { return s.cluster != nil || s.ring != nil }

// Node returns the address of the node that has a key, or "" if there is only one, or the client
// does not know the node. It sends nothing.
func (s *Server) Node(key string) string {
	if !s.IsSpread() {
		return ""
	}
	node := s.clientOf(key)
	if node == nil {
		return ""
	}
	return node.Options().Addr
}

// clientOf returns the client of the server that has a key, or nil if it is not known. It sends
// nothing.
func (s *Server) clientOf(key string) *redis.Client {
	var node *redis.Client
	var err error
	switch {
	case s.ring != nil:
		node, err = s.ring.GetShardClientForKey(key)
	case s.cluster == nil:
		node, _ = s.client.(*redis.Client)
	case s.answered.Load(): // before that, go-redis would ask a node
		node, err = s.cluster.MasterForKey(context.Background(), key)
	}
	if err != nil {
		return nil
	}
	return node
}

// shardOf returns the shard of a ring to which a call goes, or nil if there is no ring.
func (s *Server) shardOf(row *backend.AskedRow) *redis.Client {
	if s.ring == nil {
		return nil
	}
	shard, is := row.Shard.(*redis.Client)
	if is {
		return shard
	}
	return s.clientOf(row.Key)
}

// toShard returns a context that sends commands to the shard that a row names, if it names one:
// what that shard has counted must not be given back on another one.
func toShard(ctx context.Context, row *backend.AskedRow) context.Context {
	if row.Shard == nil {
		return ctx
	}
	return context.WithValue(ctx, shardKey{}, row.Shard)
}

// shardKey is the key in a context of the shard to which commands go.
type shardKey struct{}

// noteShard notes in a reply which shard of a ring has decided. If the shards have changed
// meanwhile, that is not known: then the tokens cannot be given back, and stay taken.
func (s *Server) noteShard(c *backend.Call, reply *backend.Reply, before *redis.Client) {
	isSame := s.shardOf(&c.Rows[0]) == before
	for i := range c.Rows {
		row := reply.Row(i)
		if !isSame {
			row.Receipt = 0
			continue
		}
		row.Shard = before
	}
}

// KeepsDeadlines reports whether the client returns when the deadline of a context has passed. Only
// clients of go-redis itself are known to do so, with ContextTimeoutEnabled: a wrapper may have
// their options and send commands in another way, and AutoPipeline keeps to no deadline while its
// server hangs.
func (s *Server) KeepsDeadlines() bool {
	enabled, read, write, isGoRedis := deadlinesOf(s.client)
	return isGoRedis && enabled && read >= 0 && write >= 0 // a negative time-out sets no deadline of a connection
}

// deadlinesOf returns the options for deadlines of a client, if it is one of go-redis itself.
func deadlinesOf(client Client) (enabled bool, read, write time.Duration, isGoRedis bool) {
	switch client := client.(type) {
	case *redis.Client:
		o := client.Options()
		return o.ContextTimeoutEnabled, o.ReadTimeout, o.WriteTimeout, true
	case *redis.ClusterClient:
		o := client.Options()
		return o.ContextTimeoutEnabled, o.ReadTimeout, o.WriteTimeout, true
	case *redis.Ring:
		o := client.Options()
		return o.ContextTimeoutEnabled, o.ReadTimeout, o.WriteTimeout, true
	}
	return false, 0, 0, false
}

// reload makes the client of a cluster ask which node has which keys, because a node that does not
// answer may have failed over. Go-redis itself asks once a minute, and after a redirection.
//
// It asks in the background, and at most twice a second: each call of a dead node wants a reload,
// and thousands of calls may fail in a second.
func (s *Server) reload(ctx context.Context) {
	from, now := s.reloadFrom.Load(), s.now()
	if s.cluster != nil && int64(now) >= from && s.reloadFrom.CompareAndSwap(from, int64(now+time.Second/2)) {
		go s.cluster.ReloadState(context.WithoutCancel(ctx))
	}
}

// A lastWord is the last word of a command, and notes when the command is written to a connection.
// Go-redis returns context.DeadlineExceeded both for a command that has waited for a connection and
// for a command that has waited for its answer. But only the second one has been written, and may
// be executed even if no answer comes.
//
// Go-redis asks for the bytes of the word when it writes the command, and not before, unless it is
// an AutoPipeliner. Hooks of go-redis find the lastWord among the arguments; it prints as the word
// does.
type lastWord struct {
	word    any
	written atomic.Bool
	digits  [20]byte // of an int, so that its bytes take no memory of their own
}

// noteWriting puts a lastWord in the place of the last word.
func noteWriting(words []any) *lastWord {
	at := len(words) - 1
	last := &lastWord{word: words[at]}
	before, isSentAgain := words[at].(*lastWord)
	if isSentAgain {
		last.word = before.word
	}
	words[at] = last
	return last
}

// isWritten reports whether the command has been written. For a nil lastWord it is not known, and
// isWritten returns false.
func (w *lastWord) isWritten() bool { return w != nil && w.written.Load() }

// MarshalBinary returns the word as go-redis would write it.
func (w *lastWord) MarshalBinary() ([]byte, error) {
	w.written.Store(true)
	switch word := w.word.(type) {
	case string:
		return []byte(word), nil
	case int:
		return strconv.AppendInt(w.digits[:0], int64(word), 10), nil
	case int64:
		return strconv.AppendInt(w.digits[:0], word, 10), nil
	}
	return fmt.Append(nil, w.word), nil
}

// String returns the word.
func (w *lastWord) String() string { return fmt.Sprint(w.word) }
