// A transport sends requests no faster than the limit, and all processes stop for as long as the
// service says.

package httplimit_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
	"funnel/limiter"
	"funnel/limiter/httplimit"
)

// A service answers requests in the bubble of its clients.
type service http.HandlerFunc

func (s service) RoundTrip(r *http.Request) (*http.Response, error) {
	return ask(http.HandlerFunc(s), r).Result(), nil
}

// Each transport is a process of a fleet, and they share a limiter.
func TestTransportBacksOff(t *testing.T) { synctest.Test(t, testTransportBacksOff) }

func testTransportBacksOff(t *testing.T) {
	l := limiter.NewLocal()
	join := func(limit limiter.Limit, base service) *httplimit.Transport {
		return &httplimit.Transport{Limiter: l, Limit: limit, Base: base}
	}
	begin := time.Now()
	answer := func(w http.ResponseWriter, r *http.Request) { // a second later, what the request says
		time.Sleep(time.Second)
		w.Header()["Retry-After"], w.Header()["Date"] = r.Header["Retry-After"], r.Header["Date"]
		status, _ := strconv.Atoi(r.URL.Path[1:])
		w.WriteHeader(status)
	}
	sendTo := func(host string, by *httplimit.Transport, status, after, date string) (heard time.Duration) {
		r := httptest.NewRequest(http.MethodGet, "http://"+host+"/"+status, nil)
		r.Header = http.Header{"Retry-After": {after}, "Date": {date}}
		response, err := by.RoundTrip(r)
		require.NoError(t, err)
		require.Equal(t, status, strconv.Itoa(response.StatusCode), "it is returned")
		return time.Since(begin)
	}
	send := func(by *httplimit.Transport, status, after, date string) (heard time.Duration) {
		return sendTo("API.example.com:80", by, status, after, date)
	}
	const day = "Sat, 01 Jan 2000 00:00:" // when the bubble begins
	quick := limiter.PerSecond(1000)
	first, second := join(quick, answer), join(quick, answer)
	for _, row := range []struct {
		name, status, after, date string
		longest, want             time.Duration // MaxBackOff, and how long both wait
	}{
		{"a date", "429", day + "21 GMT", "", 0, 20},
		{"a date, by the clock of the service", "429", day + "20 GMT", day + "00 GMT", 0, 20},
		{"a date that is over", "429", day + "20 GMT", day + "21 GMT", 0, 0},
		{"spaces", "503", " 10 ", "", 0, 10},
		{"another status", "500", "10", "", 0, 0},
		{"more than a minute", "429", "3600", "", 0, 60},
		{"more than an integer", "429", "99999999999999999999", "", 0, 60},
		{"more than MaxBackOff", "429", "10", "", 5 * time.Second, 5},
		{"MaxBackOff below 0", "429", "10", "", -1, 0},
		{"nothing", "429", "", "", 0, 0},
		{"no number", "429", "soon", "", 0, 0},
		{"a decimal", "429", "1.5", "", 0, 2},
		{"less than a second", "429", "0.493", "", 0, 1},
		{"a decimal without a fraction", "429", "120.0", "", 5 * time.Minute, 120},
	} {
		first.MaxBackOff = row.longest
		send(first, row.status, row.after, row.date)
		require.Equal(t, (2+row.want)*time.Second, send(second, "200", "", ""), row.name)
		time.Sleep(time.Hour)
		begin = time.Now()
	}

	// Eight answers do not add up. A process that gets a longer time waits for it, whatever another
	// host says.
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() { send(first, "429", "10", "") })
	}
	time.Sleep(time.Second / 2)
	group.Go(func() { time.Sleep(time.Second / 4); send(second, "429", "10", "") })
	send(second, "503", "30", "")
	sendTo("other.example.com", second, "429", "1", "")
	group.Wait()
	for _, c := range []struct {
		name string
		by   *httplimit.Transport
		want time.Duration
	}{
		{name: "a process without an answer of its own", by: join(quick, answer), want: 12 * time.Second},
		{name: "the process with eight answers", by: first, want: 13 * time.Second},
		{name: "the process that was told to wait for 30 s", by: second, want: 32500 * time.Millisecond},
	} {
		require.Equal(t, c.want, send(c.by, "200", "", ""), c.name)
	}

	// A reservation that is due meanwhile, here after 40 s, is given back and made again.
	begin = time.Now()
	first, second = join(limiter.Every(40*time.Second), answer), join(limiter.Every(40*time.Second), answer)
	group.Go(func() { send(first, "429", "60", "") })
	synctest.Wait()
	require.Equal(t, 62*time.Second, send(second, "200", "", ""),
		"the first request takes a second and is told to wait for 60 s, and the second request takes a second")
	group.Wait()
}

// A request that is not sent has an error, at once if its turn would be too late. Its body is
// closed.
func TestTransportErrors(t *testing.T) {
	const host, key, backOff = "api.example.com", "{api.example.com}:rate", "{api.example.com}:backoff"
	gone, never := errors.New("gone"), time.Hour
	for name, c := range map[string]struct {
		full                    string                // the key of a funnel that is full for 10 s
		down                    limiter.FailurePolicy // where there is none
		maxWait, canceled, took time.Duration
		want                    error
	}{
		"MaxWait":               {key, 0, 4 * time.Second, never, 0, context.DeadlineExceeded},
		"canceled":              {key, 0, 0, time.Second, time.Second, gone},
		"MaxWait, backed off":   {backOff, 0, 4 * time.Second, never, 0, context.DeadlineExceeded},
		"canceled, backed off":  {backOff, 0, 0, time.Second, time.Second, gone},
		"no Redis":              {"", limiter.FailWithError, 0, never, 0, syscall.ECONNREFUSED},
		"no Redis, fail closed": {"", limiter.FailClosed, 4 * time.Second, never, 4 * time.Second, context.DeadlineExceeded},
	} {
		synctest.Test(t, func(t *testing.T) {
			l, limit, begin := limiter.NewLocal(), limiter.Every(10*time.Second), time.Now()
			_, err := l.Charge(t.Context(), c.full, limit, 1)
			require.NoError(t, err)
			if c.full == "" {
				l = limiter.New(unreachable(t), limiter.OnFailure(c.down), limiter.WithLogger(slog.New(slog.DiscardHandler)))
			}
			ctx, stop := context.WithCancelCause(t.Context())
			defer time.AfterFunc(c.canceled, func() { stop(gone) }).Stop()
			body, _ := os.Open(os.DevNull)
			r, _ := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+host+":443", body)
			_, err = (&httplimit.Transport{Limiter: l, Limit: limit, MaxWait: c.maxWait}).RoundTrip(r)
			require.ErrorIs(t, err, c.want, name)
			require.Equal(t, c.took, time.Since(begin), name)
			require.ErrorIs(t, body.Close(), os.ErrClosed, name)
		})
	}
	for _, none := range []httplimit.Reserver{nil, (*limiter.Limiter)(nil)} {
		_, err := (&httplimit.Transport{Limiter: none, Limit: slow(1)}).RoundTrip(from("192.0.2.1"))
		require.EqualError(t, err, "httplimit: Transport.Limiter is nil: set it to a limiter.Limiter")
	}
}

// If Redis hangs for longer than MaxWait, OnFailure applies.
func TestTransportWhileRedisHangs(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer silent.Close()
	rdb := redis.NewClient(&redis.Options{Addr: silent.Addr().String()})
	l := limiter.New(rdb, limiter.WithTimeout(20*time.Millisecond), limiter.OnFailure(limiter.FailOpen))
	transport := &httplimit.Transport{Limiter: l, Limit: slow(1), MaxWait: time.Millisecond, Base: service(ok)}
	_, err = transport.RoundTrip(from("192.0.2.1"))
	require.NoError(t, err)
}

// Once the response is there, a caller that gives up does not wait for a Redis that hangs. When
// Redis goes on, the back-off reaches the other processes.
func TestTransportReturnsResponses(t *testing.T) {
	server := servertest.StartModule(t)
	defer server.Signal(syscall.SIGCONT)
	ctx, stop := context.WithCancel(t.Context())
	hanging := service(func(w http.ResponseWriter, _ *http.Request) {
		stop()
		server.Signal(syscall.SIGSTOP)
		w.Header().Set("Retry-After", "60")
		w.WriteHeader(429)
	})
	rdb := server.Client(t, func(options *redis.Options) { options.ReadTimeout = -1 })
	transport := &httplimit.Transport{Limiter: limiter.New(rdb), Limit: slow(1), Base: hanging}
	r := httptest.NewRequest(http.MethodGet, "http://example.com", nil)
	response, err := transport.RoundTrip(r.WithContext(ctx))
	require.NoError(t, err)
	require.Equal(t, 429, response.StatusCode)
	require.NoError(t, server.Signal(syscall.SIGCONT))
	servertest.Eventually(t, "the back-off is in Redis", func() bool {
		return rdb.Exists(context.Background(), "{example.com}:backoff").Val() == 1
	})
}
