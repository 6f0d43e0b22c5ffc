// Every reply of a mixed load follows the contract, and leases go on granting tokens, while servers
// fail over, rewrite their logs and wait for a busy disk. FUNNEL_SOAK_TIME says for how long.

package soak_test

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
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
)

// A soak is the load on a primary and its replica, and what it has seen.
type soak struct {
	*testing.T
	servers [2]*servertest.Server
	primary atomic.Pointer[servertest.Server]
	calling sync.RWMutex // locked by a failover
	over    atomic.Bool
	callers sync.WaitGroup

	mutex     sync.Mutex
	latencies []time.Duration // since the latest row of the table
	calls     int
}

// soakTime is how long the soaks of this package last, or 0 for some seconds.
var soakTime = servertest.SoakTime()

// TestEveryReplyFollowsTheContract: each tenth of the time has a failover, in turn with and without
// kill -9, logs that are rewritten, and a phase of a busy disk. A run below a minute has one of
// each.
func TestEveryReplyFollowsTheContract(t *testing.T) {
	servertest.NeedSince7(t, "the end of a period to the millisecond, by the script")
	t.Parallel()
	duration := cmp.Or(soakTime, 3*time.Second)
	options := servertest.WithLog(servertest.DebugModule(t), "everysec", "--repl-diskless-sync-delay", "0",
		"--auto-aof-rewrite-percentage", "0")
	s := &soak{T: t, servers: [2]*servertest.Server{servertest.Start(t, options), servertest.Start(t, options)}}
	s.primary.Store(s.servers[0])
	s.attach(s.servers[1], s.servers[0])
	t.Cleanup(s.end)
	for i := range 6 {
		c := &caller{soak: s, number: i, values: map[string]contract.Value{}, receipts: map[string]string{}}
		s.repeat(c.call)
	}

	began := time.Now()
	parts := max(1, min(10, int(duration/(6*time.Second))))
	t.Log("| minutes | calls | RSS MB | descriptors | p50 ms | p99 ms | longest ms |")
	var memory, descriptors [2]int64 // after the second tenth
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
		for _, server := range s.servers {
			client := server.NewClient()
			servertest.Eventually(t, "a log is rewritten", func() bool { return client.BgRewriteAOF(t.Context()).Err() == nil })
			client.Close()
		}
		at(0.4)
		stop()
		at(0.6)
		s.failOver(part%2 == 0)
		at(1)
		used, open := s.report(time.Since(began))
		if part < 2 {
			memory, descriptors = used, open
		}
		for i := range s.servers {
			require.LessOrEqual(t, used[i], memory[i]*3/2+8<<20, "memory")
			require.LessOrEqual(t, open[i], descriptors[i]+30, "descriptors: the replica has fewer")
		}
	}
	s.end()
}

// repeat runs call in a goroutine, again and again, until the soak is over or has failed.
func (s *soak) repeat(call func() error) {
	s.callers.Go(func() {
		for !s.over.Load() && !s.Failed() {
			err := call()
			if err != nil {
				s.Error(err)
			}
		}
	})
}

// end ends the load.
func (s *soak) end() {
	s.over.Store(true)
	s.callers.Wait()
}

// attach makes a server a replica, and waits until it is.
func (s *soak) attach(replica, primary *servertest.Server) {
	client := replica.NewClient()
	defer client.Close()
	require.NoError(s, client.ReplicaOf(context.Background(), "127.0.0.1", fmt.Sprint(primary.Port)).Err())
	servertest.Eventually(s, "the replica is attached", func() bool {
		return strings.Contains(client.Info(context.Background(), "replication").Val(), "master_link_status:up")
	})
}

// failOver swaps the roles, after a kill -9 or without.
func (s *soak) failOver(kill bool) {
	old := s.primary.Load()
	replica := s.servers[0]
	if replica == old {
		replica = s.servers[1]
	}
	client := old.NewClient()
	defer client.Close()
	s.promote(client, replica)
	if kill {
		old.Kill()
		old.Restart(s)
	}
	s.attach(old, replica)
	require.NoError(s, client.Do(context.Background(), "client", "unpause").Err())
}

// promote lets callers go on with the replica.
func (s *soak) promote(old *redis.Client, replica *servertest.Server) {
	promoted := replica.NewClient()
	defer promoted.Close()
	s.calling.Lock()
	defer s.calling.Unlock()
	servertest.Promote(s, old, promoted)
	s.primary.Store(replica)
}

// keepBusy writes to the disk and waits for it, until it is stopped.
func keepBusy(path string) (stop func()) {
	stopped, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		defer os.Remove(path)
		for block := make([]byte, 32<<20); ; {
			file, err := os.Create(path)
			if err == nil {
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

// report logs a row of the table, and returns the memory and the descriptors of the servers.
func (s *soak) report(elapsed time.Duration) (memory, descriptors [2]int64) {
	for i, server := range s.servers {
		files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", server.Pid()))
		require.NoError(s, err)
		memory[i] = servertest.MemoryOf(s, server, "VmRSS")
		descriptors[i] = int64(len(files))
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	slices.Sort(s.latencies)
	share := func(part int) float64 { return s.latencies[(len(s.latencies)-1)*part/100].Seconds() * 1000 }
	s.Logf("| %.0f | %d | %.1f, %.1f | %d, %d | %.2f | %.2f | %.1f |", elapsed.Minutes(), s.calls,
		float64(memory[0])/(1<<20), float64(memory[1])/(1<<20), descriptors[0], descriptors[1], share(50), share(99),
		share(100))
	s.latencies = s.latencies[:0]
	return memory, descriptors
}

// A caller makes one call after another for keys of its own: two funnels, slots and a quota. So it
// knows what they hold.
type caller struct {
	*soak
	number   int
	wire     *servertest.Wire
	server   *servertest.Server // which it is connected to
	values   map[string]contract.Value
	receipts map[string]string // by funnel
}

// call calls, and checks the reply and what it leaves behind.
func (c *caller) call() error {
	call := c.anyCall()
	began, err := c.send(call)
	if err != nil {
		return err
	}
	took := time.Since(began)
	err = call.check(c.values)
	if err != nil {
		return err
	}
	maps.Copy(c.values, call.after)
	reply, ofRows := call.reply.([]any)
	if ofRows && call.words[0] != "cl.throttle" {
		c.receipts[call.rows[0][0]] = reply[2].([]any)[0].([]any)[5].(string)
	}
	c.mutex.Lock()
	c.calls++
	c.latencies = append(c.latencies, took)
	c.mutex.Unlock()
	time.Sleep(rand.N(30 * time.Millisecond))
	return nil
}

// send sends a call to the primary, after connecting to a new one.
func (c *caller) send(call *call) (began time.Time, err error) {
	c.calling.RLock()
	defer c.calling.RUnlock()
	current := c.primary.Load()
	if current != c.server {
		if c.wire != nil {
			c.wire.Close()
		}
		c.server = current
		c.wire = current.Wire(c)
		_, err := c.wire.Do("script", "load", script)
		if err != nil {
			return began, err
		}
	}
	return time.Now(), call.send(c, c.wire)
}
