// Every reply under a mixed load follows the contract, and the bounds hold for any time, while servers
// fail over, rewrite their logs and wait for a busy disk. FUNNEL_SOAK_TIME says for how long.

package soak_test

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/internal/contract"
	"funnel/internal/servertest"
	"funnel/limiter"
)

const slotsLimit = 3

var rates = [][]string{{"20", "50", "1"}, {"100", "30", "0.5"}, {"5", "7", "3"}, {"1000", "100", "1"}, {"3", "1000", "1"}}

// A soak is the load, and what it has seen.
type soak struct {
	t       *testing.T
	ctx     context.Context // done when the load ends
	primary atomic.Pointer[servertest.Server]
	calling sync.RWMutex // locked by a failover
	moved   atomic.Int64 // when the latest was, in Unix nanoseconds
	groups  []*group
	workers sync.WaitGroup

	mutex     sync.Mutex
	latencies []time.Duration // since the latest row of the table
	calls     int
	exact     int
	errors    int // of limiters, in failovers
	direct    [3]int
}

// TestEveryReplyFollowsTheLaw: each tenth of the time has a failover, in turn with and without kill -9,
// logs that are rewritten, and a phase of a busy disk. A run below a minute has one of each.
func TestEveryReplyFollowsTheLaw(t *testing.T) {
	duration, err := time.ParseDuration(cmp.Or(os.Getenv("FUNNEL_SOAK_TIME"), "3s"))
	require.NoError(t, err)
	options := servertest.Options{Module: servertest.Module(t), Config: []string{
		"--save", "", "--appendonly", "yes", "--appendfsync", "everysec", "--repl-diskless-sync-delay", "0",
		"--auto-aof-rewrite-percentage", "0"}}
	servers := []*servertest.Server{servertest.Start(t, options), servertest.Start(t, options)}
	ctx, cancel := context.WithCancel(t.Context())
	s := &soak{t: t, ctx: ctx}
	s.primary.Store(servers[0])
	s.follow(servers[1], servers[0])
	for i := range 6 {
		s.groups = append(s.groups, &group{name: string(rune('a' + i)), isCharged: i%2 == 1,
			answered: map[int64]*call{}, values: map[string]contract.Value{}, levels: map[string]int64{}})
	}
	for range 8 {
		s.workers.Go(s.callInTurn)
	}
	s.callByLimiters()
	t.Cleanup(func() { cancel(); s.workers.Wait() })

	began, parts := time.Now(), max(1, min(10, int(duration/(6*time.Second))))
	t.Log("| minutes | calls | exact | used MB | RSS MB | descriptors | p50 ms | p99 ms | longest ms | test MB | goroutines |")
	var first [2]int64
	connected := 0
	for part := range parts {
		at := func(share float64) {
			instant := began.Add(time.Duration((float64(part) + share) * float64(duration) / float64(parts)))
			for time.Now().Before(instant) && !t.Failed() {
				time.Sleep(min(100*time.Millisecond, time.Until(instant)))
			}
		}
		at(0.1)
		stop := keepBusy(filepath.Join(s.primary.Load().Dir, "busy"))
		at(0.2)
		for _, server := range servers {
			client := server.NewClient()
			servertest.Eventually(t, "a log is rewritten", func() bool { return client.BgRewriteAOF(ctx).Err() == nil })
			client.Close()
		}
		at(0.4)
		stop()
		at(0.6)
		s.failOver(servers, part%2 == 0)
		at(1)
		memory, descriptors := s.tell(time.Since(began), servers)
		if part == min(1, parts-1) {
			first, connected = memory, descriptors
		}
		if part > 0 {
			require.LessOrEqual(t, memory[0], first[0]*3/2+8<<20, "memory")
			require.LessOrEqual(t, memory[1], first[1]*3/2+8<<20, "memory")
			require.LessOrEqual(t, descriptors, connected+16, "descriptors")
		}
	}
	cancel()
	s.workers.Wait()
	for _, group := range s.groups {
		require.Positive(t, group.number)
		require.Empty(t, group.answered, "all calls are checked")
	}
	require.Positive(t, min(s.direct[0], s.direct[1], s.direct[2]), "calls by leases, reservations and slots: %v", s.direct)
	t.Logf("%d calls, %d of them by their exact instants; by leases, reservations and slots %v; %d errors in failovers",
		s.calls, s.exact, s.direct, s.errors)
}

// follow makes a server a replica, and waits until it is.
func (s *soak) follow(replica, primary *servertest.Server) {
	client := replica.NewClient()
	defer client.Close()
	require.NoError(s.t, client.ReplicaOf(context.Background(), "127.0.0.1", fmt.Sprint(primary.Port)).Err())
	servertest.Eventually(s.t, "the replica is attached", func() bool {
		return strings.Contains(client.Info(context.Background(), "replication").Val(), "master_link_status:up")
	})
}

// failOver swaps the roles, after a kill -9 or without.
func (s *soak) failOver(servers []*servertest.Server, kill bool) {
	old, replica := s.primary.Load(), servers[0]
	if replica == old {
		replica = servers[1]
	}
	s.promote(old, replica, kill)
	if kill {
		old.Restart(s.t)
	}
	s.follow(old, replica)
}

// promote loses nothing: writes are paused until the replica has everything.
func (s *soak) promote(old, replica *servertest.Server, kill bool) {
	ctx, client, promoted := context.Background(), old.NewClient(), replica.NewClient()
	defer client.Close()
	defer promoted.Close()
	s.calling.Lock()
	defer s.calling.Unlock()
	require.NoError(s.t, client.Do(ctx, "client", "pause", 60_000, "write").Err())
	servertest.AwaitReplicas(s.t, client, promoted)
	require.NoError(s.t, promoted.ReplicaOf(ctx, "no", "one").Err())
	s.primary.Store(replica)
	s.moved.Store(time.Now().UnixNano())
	if kill {
		old.Kill()
	} else {
		require.NoError(s.t, client.ReplicaOf(ctx, "127.0.0.1", fmt.Sprint(replica.Port)).Err())
		require.NoError(s.t, client.Do(ctx, "client", "unpause").Err())
		require.NoError(s.t, client.Do(ctx, "client", "kill", "type", "normal").Err())
	}
}

// keepBusy writes to the disk and waits for it, until it is stopped.
func keepBusy(path string) (stop func()) {
	stopped, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		defer os.Remove(path)
		for block := make([]byte, 32<<20); ; {
			if file, err := os.Create(path); err == nil {
				_, _ = file.Write(block)
				_ = file.Sync()
				file.Close()
			}
			select {
			case <-stopped:
				return
			case <-time.After(500 * time.Millisecond):
			}
		}
	}()
	return func() { close(stopped); <-done }
}

// tell logs a row of the table, and returns the memory and the descriptors of the servers.
func (s *soak) tell(elapsed time.Duration, servers []*servertest.Server) (memory [2]int64, descriptors int) {
	var used [2]int64
	var open [2]int
	for i, server := range servers {
		client := server.NewClient()
		used[i] = servertest.InfoField(s.t, client, "memory", "used_memory")
		client.Close()
		files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", server.Pid()))
		require.NoError(s.t, err)
		memory[i], open[i] = servertest.MemoryOf(s.t, server, "VmRSS"), len(files)
	}
	var own runtime.MemStats
	runtime.ReadMemStats(&own)
	s.mutex.Lock()
	defer s.mutex.Unlock()
	require.NotEmpty(s.t, s.latencies)
	slices.Sort(s.latencies)
	share := func(part int) float64 { return s.latencies[(len(s.latencies)-1)*part/100].Seconds() * 1000 }
	const mega = 1 << 20
	s.t.Logf("| %.1f | %d | %d | %.1f, %.1f | %.1f, %.1f | %d, %d | %.2f | %.2f | %.1f | %.1f | %d |",
		elapsed.Minutes(), s.calls, s.exact, float64(used[0])/mega, float64(used[1])/mega,
		float64(memory[0])/mega, float64(memory[1])/mega, open[0], open[1],
		share(50), share(99), share(100), float64(own.HeapInuse)/mega, runtime.NumGoroutine())
	s.latencies = s.latencies[:0]
	return memory, open[0] + open[1]
}

// callInTurn sends calls one after the other, until the load ends or a reply is wrong.
func (s *soak) callInTurn() {
	var wire *servertest.Wire
	var server *servertest.Server
	for s.ctx.Err() == nil && !s.t.Failed() {
		group := s.groups[rand.IntN(len(s.groups))]
		c := group.anyCall()
		s.calling.RLock()
		var err error
		if current := s.primary.Load(); current != server {
			if wire != nil {
				wire.Close()
			}
			server = current
			if wire, err = server.TryWire(); err == nil {
				_, err = wire.Do("script", "load", limiter.Script())
			}
		}
		began := time.Now()
		if err == nil {
			err = c.send(s.t, wire, group)
		}
		took := time.Since(began)
		s.calling.RUnlock()
		exact := 0
		if err == nil {
			exact, err = group.check(c)
		}
		if err != nil {
			s.t.Error(err)
			return
		}
		s.mutex.Lock()
		s.calls++
		s.exact += exact
		s.latencies = append(s.latencies, took)
		s.mutex.Unlock()
		time.Sleep(rand.N(40 * time.Millisecond))
	}
	if wire != nil {
		wire.Close()
	}
}

// anyCall is of one, two or all keys of the group, by the module or the script. Some are errors.
func (g *group) anyCall() *call {
	command := contract.Commands[rand.IntN(len(contract.Commands))]
	if command.Operation == "charge" && rand.IntN(2) == 0 { // less than is given back
		command, _ = contract.CommandOf("cl.refund")
	}
	keys := rand.Perm(3)[:1+rand.IntN(3)]
	if command.Funnels == 1 {
		keys = []int{rand.IntN(2)}
	}
	c := &call{words: []string{command.Name}, byScript: !command.Seconds && rand.IntN(3) == 0,
		before: map[string]contract.Value{}, after: map[string]contract.Value{}, expiries: map[string]int64{}}
	for _, key := range keys {
		c.rows = append(c.rows, g.anyRow(command.Operation, key))
		c.words = append(c.words, c.rows[len(c.rows)-1]...)
	}
	if len(keys) > 1 || keys[0] == 2 || rand.IntN(2) == 0 {
		return c
	}
	if receipt, given := g.receipts.Load(c.rows[0][0]); command.LastWord == "tat" && given {
		c.words = append(c.words, receipt.(string))
	} else if command.LastWord == "max_wait" {
		c.words = append(c.words, []string{"0.0001", "0.05", "2"}[rand.IntN(3)])
	}
	return c
}

// anyRow is of a funnel, which has one rate, or of slots, which have the key 2.
func (g *group) anyRow(operation string, key int) []string {
	name, dice := fmt.Sprint(g.name, ":", key), rand.IntN(100)
	if key < 2 || operation == "peek" && dice == 0 { // of slots, this is WRONGTYPE
		rate := rates[(int(g.name[0]-'a')+key)%len(rates)]
		quantity := []string{"1", "1", "1", "1", "2", "3", "7", "0"}[rand.IntN(8)]
		if dice < 5 && operation != "charge" {
			quantity = []string{"1001", "x"}[dice%2] // which never fits, or is an error
		}
		return []string{name, rate[0], rate[1], rate[2], quantity}
	}
	limit := fmt.Sprint(slotsLimit)
	if dice < 20 {
		limit = "0" // a renewal
	}
	if operation == "charge" && !g.isCharged {
		limit = "x" // an error
	}
	return []string{name, limit, "SLOTS", []string{"0.05", "0.2", "1.0005"}[rand.IntN(3)], fmt.Sprint("h", rand.IntN(8))}
}

// send sends the call in a transaction that also reads its keys, and gives it a number.
func (c *call) send(t testing.TB, wire *servertest.Wire, g *group) error {
	commands := [][]string{{"multi"}, {"incr", g.name}}
	read := func() {
		for _, row := range c.rows {
			if strings.HasSuffix(row[0], ":2") {
				commands = append(commands, []string{"zrange", row[0], "0", "-1", "withscores"})
			} else {
				commands = append(commands, []string{"get", row[0]})
			}
		}
	}
	read()
	commands = append(commands, c.form())
	read()
	for _, row := range c.rows {
		commands = append(commands, servertest.AskExpiry(t, row[0]))
	}
	var buffer []byte
	for _, words := range append(commands, []string{"exec"}) {
		buffer = servertest.AppendCommand(buffer, words...)
	}
	c.sent = time.Now().UnixNano()
	if _, err := wire.Write(buffer); err != nil {
		return err
	}
	for range commands {
		if reply, err := wire.Receive(); err != nil || reply != "OK" && reply != "QUEUED" {
			return fmt.Errorf("%v: %v %w", commands, reply, err)
		}
	}
	reply, err := wire.Receive()
	c.answer = time.Now().UnixNano()
	replies, isArray := reply.([]any)
	if err != nil || !isArray {
		return fmt.Errorf("%v: %v %w", commands, reply, err)
	}
	c.number, c.reply = replies[0].(int64), replies[1+len(c.rows)]
	for i, row := range c.rows {
		c.before[row[0]] = valueOf(replies[1+i])
		c.after[row[0]] = valueOf(replies[2+len(c.rows)+i])
		c.expiries[row[0]] = replies[2+2*len(c.rows)+i].(int64)
	}
	if reply, ofRows := c.reply.([]any); ofRows && c.words[0] != "cl.throttle" && c.rows[0][2] != "SLOTS" {
		if receipt := reply[2].([]any)[0].([]any)[5]; receipt != "0" {
			g.receipts.Store(c.rows[0][0], receipt)
		}
	}
	return nil
}

// form is the call as it is sent: the command, or the script.
func (c *call) form() []string {
	if !c.byScript {
		return c.words
	}
	words := []string{"evalsha", scriptHash, fmt.Sprint(len(c.rows))}
	for _, row := range c.rows {
		words = append(words, row[0])
	}
	words = append(words, strings.TrimPrefix(c.words[0], "cl."))
	for _, row := range c.rows {
		words = append(words, row[1:]...)
	}
	return append(words, c.words[1+5*len(c.rows):]...)
}

var scriptHash = redis.NewScript(limiter.Script()).Hash()

// valueOf is what a key held by the reply of GET, or of ZRANGE WITHSCORES.
func valueOf(reply any) contract.Value {
	members, isSet := reply.([]any)
	if text, isText := reply.(string); isText {
		return contract.Value{Type: "string", Text: text}
	} else if !isSet || len(members) == 0 {
		return contract.Value{}
	}
	scores := map[string]float64{}
	for i := 0; i < len(members); i += 2 {
		scores[members[i].(string)] = float64(number(members[i+1].(string)))
	}
	return contract.Value{Type: "zset", Scores: scores}
}
