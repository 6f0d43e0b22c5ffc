package servertest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// SentinelName is the name under which [StartSentinels] watches a primary.
const SentinelName = "funnel"

// StartSentinels starts sentinels that watch a primary and its replicas, which
// must be attached already, and waits until they know each other and the replicas. From
// then on they fail over when the primary is down for that long. They stop when the test
// ends.
func StartSentinels(t testing.TB, count, quorum int, down time.Duration, primary *Server, replicas int) []*Server {
	t.Helper()
	sentinels := make([]*Server, count)
	for i := range sentinels {
		sentinels[i] = startSentinel(t, quorum, down, primary)
	}
	Await(t, pollInterval, "the sentinels know each other and the replicas", func() error {
		for _, sentinel := range sentinels {
			if err := sentinel.watches(count-1, replicas); err != nil {
				return err
			}
		}
		return nil
	})
	return sentinels
}

// startSentinel starts one sentinel. Its first argument must be a configuration file that it
// can rewrite.
func startSentinel(t testing.TB, quorum int, down time.Duration, primary *Server) *Server {
	t.Helper()
	sentinel := &Server{Dir: t.TempDir(), Port: FreePort(t)}
	file := filepath.Join(sentinel.Dir, "sentinel.conf")
	lines := []string{
		fmt.Sprintf("port %d", sentinel.Port),
		"bind 127.0.0.1",
		"dir " + sentinel.Dir,
		"logfile " + sentinel.logPath(),
		fmt.Sprintf("sentinel monitor %s 127.0.0.1 %d %d", SentinelName, primary.Port, quorum),
		fmt.Sprintf("sentinel down-after-milliseconds %s %d", SentinelName, down.Milliseconds()),
		fmt.Sprintf("sentinel failover-timeout %s %d", SentinelName, (10 * time.Second).Milliseconds()),
	}
	if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}

	sentinel.process = exec.Command(Program(), file, "--sentinel")
	sentinel.process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if err := sentinel.process.Start(); err != nil {
		t.Fatal(err)
	}
	sentinel.exited = make(chan struct{})
	go func() {
		sentinel.process.Wait()
		close(sentinel.exited)
	}()
	t.Cleanup(func() {
		sentinel.Stop()
		if t.Failed() {
			t.Logf("end of the log of the sentinel on port %d:\n%s", sentinel.Port, sentinel.logTail())
		}
	})
	if err := sentinel.waitUntilReady(); err != nil {
		t.Fatal(err)
	}
	return sentinel
}

// watches returns an error until a sentinel knows all servers.
func (s *Server) watches(sentinels, replicas int) error {
	client := redis.NewSentinelClient(&redis.Options{Addr: s.Addr()})
	defer client.Close()
	primary, err := client.Master(context.Background(), SentinelName).Result()
	if err != nil {
		return err
	}
	for field, want := range map[string]string{
		"flags":               "master",
		"num-slaves":          strconv.Itoa(replicas),
		"num-other-sentinels": strconv.Itoa(sentinels),
	} {
		if primary[field] != want {
			return fmt.Errorf("sentinel %d sees %s %s, not %s", s.Port, field, primary[field], want)
		}
	}
	return client.CkQuorum(context.Background(), SentinelName).Err()
}
