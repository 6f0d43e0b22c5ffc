// Callers give up all the time, and programs are shut down, while quotas reach the ends of their
// periods. At the end of each tenth all programs have ended, and nothing may be left behind: no
// slot, and no token that no caller was told of.

package soak_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
	"funnel/limiter"
)

// What all programs take, together in each call.
var (
	leaverSlots = limiter.Slots{Max: 24, TTL: 5 * time.Second}

	// A window ends each two seconds, and then has been used up, mostly.
	leaverWindow = limiter.Window(300, 2*time.Second)

	// Nothing of these two leaks or ends during a tenth, so they count what was taken. The window
	// bounds that: a tenth of 100 minutes allows 90,000 calls. A funnel must be empty again before
	// 2262, and 100,000 tokens of twelve hours each take 137 years.
	leaverFunnel = limiter.Per(1, 12*time.Hour).WithCapacity(100_000)
	leaverQuota  = limiter.Until(1_000_000_000, time.Now().AddDate(1, 0, 0).Truncate(24*time.Hour))
)

func leaverRows() []limiter.Row {
	return []limiter.Row{
		leaverSlots.At("slots"),
		limiter.Request{Key: "funnel", Limit: leaverFunnel, Quantity: 1},
		limiter.Request{Key: "quota", Limit: leaverQuota, Quantity: 1},
		limiter.Request{Key: "window", Limit: leaverWindow, Quantity: 1},
	}
}

// leaveOften is the program of 32 callers who mostly give up within 4 ms. When its standard input
// is closed, as SIGTERM would tell a service, the callers give up, the program drains its Limiter,
// and prints what callers were told: "allowed" and how many calls, "gave-up" and how many,
// "not-sent" and how many, because too many calls of callers that gave up were under way, and for
// each window "window", its end in nanoseconds, and how many tokens.
//
// A command whose answer does not come in time leaves tokens, and so does a command that go-redis
// repeats. Neither is to happen, even if Redis gets no processor for many seconds.
func leaveOften(addr string) {
	client := redis.NewClient(&redis.Options{Addr: addr, PoolSize: 64, MaxRetries: -1,
		ReadTimeout: servertest.Patience, WriteTimeout: servertest.Patience})
	l := limiter.New(client, limiter.WithTimeout(servertest.Patience))
	running, stop := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	var callers sync.WaitGroup
	var mutex sync.Mutex
	var allowed, gaveUp, notSent int
	windows := map[int64]int{}
	for range 32 {
		callers.Go(func() {
			for running.Err() == nil {
				ctx, cancel := servertest.LeavingContext(running)
				got, err := l.TryAcquire(ctx, leaverRows()...)
				mutex.Lock()
				switch {
				case err != nil && ctx.Err() != nil:
					gaveUp++
				case err != nil && strings.Contains(err.Error(), "calls are under way whose callers have given up"):
					notSent++
				case err != nil:
					fmt.Println("error", err)
				case !got.Limited():
					allowed++
					windows[got.Results[3].Receipt]++
				}
				mutex.Unlock()
				if err == nil && !got.Limited() {
					time.Sleep(rand.N(2 * time.Millisecond))
					got.ReleaseSoon(ctx)
				}
				cancel()
			}
		})
	}
	callers.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), 2*servertest.Patience)
	defer cancel()
	left, err := l.Drain(ctx)
	if left > 0 || err != nil {
		fmt.Println("error", left, "calls were not answered:", err)
	}
	fmt.Println("allowed", allowed)
	fmt.Println("gave-up", gaveUp)
	fmt.Println("not-sent", notSent)
	for end, tokens := range windows {
		fmt.Println("window", end, tokens)
	}
	os.Exit(0)
}

// leavers are what programs have printed.
type leavers struct {
	allowed, gaveUp, notSent int
	windows                  map[int64]int
}

// A leaver is a process with the program.
type leaver struct {
	*exec.Cmd
	input io.WriteCloser
}

func startLeaver(t *testing.T, addr string) leaver {
	process := exec.Command(os.Args[0], "leavers", addr)
	process.Stdout, process.Stderr = &bytes.Buffer{}, t.Output()
	input, err := process.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, process.Start())
	t.Cleanup(func() { process.Process.Kill() })
	return leaver{process, input}
}

// shutDown ends a program, and reads what it prints.
func (l *leavers) shutDown(t *testing.T, process leaver) {
	require.NoError(t, process.input.Close())
	err := process.Wait()
	printed := process.Stdout.(*bytes.Buffer).String()
	require.NoError(t, err, printed)
	for line := range strings.Lines(printed) {
		words := strings.Fields(line)
		number, err := strconv.Atoi(words[len(words)-1])
		if err != nil || words[0] == "error" {
			t.Errorf("a program of callers that give up printed: %s", line)
			continue
		}
		switch words[0] {
		case "allowed":
			l.allowed += number
		case "gave-up":
			l.gaveUp += number
		case "not-sent":
			l.notSent += number
		case "window":
			end, err := strconv.ParseInt(words[1], 10, 64)
			require.NoError(t, err, line)
			l.windows[end] += number
		}
	}
}

// TestCallersWhoLeaveAllTheTimeLeaveNothing has four programs, of which one after the other is shut
// down and started again.
func TestCallersWhoLeaveAllTheTimeLeaveNothing(t *testing.T) {
	t.Parallel()
	server := servertest.StartModule(t)
	client := server.Client(t)
	duration := max(soakTime, servertest.QuickOrLong(3*time.Second, time.Minute))
	tenths := servertest.QuickOrLong(1, 10)
	if soakTime > 0 {
		tenths = 10
	}
	var allowed, gaveUp, notSent, shutdowns, windows int // in all tenths
	t.Log("| minutes | calls that were allowed | callers that gave up | calls not sent | shutdowns | windows | slots left | " +
		"tokens nobody was told of |")
	began := time.Now()
	for tenth := range tenths {
		told := leavers{windows: map[int64]int{}}
		require.NoError(t, client.Del(t.Context(), "funnel", "quota").Err())
		ends := began.Add(duration * time.Duration(tenth+1) / time.Duration(tenths))
		var processes [4]leaver
		for i := range processes {
			processes[i] = startLeaver(t, server.Addr())
		}
		for i := 0; time.Until(ends) > 0 && !t.Failed(); i++ {
			time.Sleep(min(time.Second, time.Until(ends)))
			told.shutDown(t, processes[i%4])
			processes[i%4] = startLeaver(t, server.Addr())
			shutdowns++
		}
		for _, process := range processes {
			told.shutDown(t, process)
			shutdowns++
		}
		slots, unknown := told.leftBehind(t, client)
		allowed, gaveUp, notSent = allowed+told.allowed, gaveUp+told.gaveUp, notSent+told.notSent
		windows += len(told.windows)
		t.Logf("| %.1f | %d | %d | %d | %d | %d | %d | %d |", time.Since(began).Minutes(), allowed, gaveUp, notSent, shutdowns,
			windows, slots, unknown)
		require.Zero(t, slots, "slots that nobody holds, in tenth %d", tenth)
		require.Zero(t, unknown, "tokens of the funnel or the quota that no caller was told of, in tenth %d", tenth)
		require.Positive(t, told.gaveUp)
		require.Positive(t, told.allowed)
		for end, tokens := range told.windows {
			require.LessOrEqual(t, tokens, leaverWindow.Capacity, "tokens of the window that ended at %v", time.Unix(0, end))
		}
	}
}

// leftBehind returns how many slots are held, and by how many tokens what Redis counts differs from
// what callers were told.
func (l *leavers) leftBehind(t *testing.T, client *redis.Client) (slots int64, unknown int) {
	ctx, reader := t.Context(), limiter.New(client)
	slots = client.ZCard(ctx, "slots").Val()
	for key, limit := range map[string]limiter.Limit{"funnel": leaverFunnel, "quota": leaverQuota} {
		result, err := reader.Peek(ctx, key, limit)
		require.NoError(t, err, key)
		unknown += max(0, limit.Capacity-result.Remaining-l.allowed)
		require.LessOrEqual(t, l.allowed, limit.Capacity-result.Remaining,
			"callers were told of tokens that %s does not count", key)
	}
	return slots, unknown
}
