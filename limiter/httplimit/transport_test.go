// A transport sends requests no faster than the limit, and all processes stop for as long as a service says.

package httplimit_test

import (
	"context"
	"errors"
	"log/slog"
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

// A service answers in the bubble of its clients.
type service http.HandlerFunc

func (s service) RoundTrip(r *http.Request) (*http.Response, error) {
	return ask(http.HandlerFunc(s), r).Result(), nil
}

// A clocked client has the module go by the clock of the bubble.
type clocked struct{ *redis.Client }

func (c clocked) Process(ctx context.Context, command redis.Cmder) error {
	c.Do(context.Background(), "funnel.debug", "clock", time.Now().UnixNano())
	return c.Client.Process(ctx, command)
}

// Processes go by one server.
func TestTransportBacksOff(t *testing.T) {
	t.Parallel()
	server := servertest.Start(t, servertest.Options{Module: servertest.DebugModule(t)})
	synctest.Test(t, func(t *testing.T) { testTransportBacksOff(t, server) })
}

func testTransportBacksOff(t *testing.T, server *servertest.Server) {
	join := func(limit limiter.Limit, base service) *httplimit.Transport {
		return &httplimit.Transport{Limiter: limiter.New(clocked{server.Client(t)}), Limit: limit, Base: base}
	}
	time.Sleep(time.Until(servertest.Epoch))
	begin := time.Now()
	answer := func(w http.ResponseWriter, r *http.Request) { // a second later, what the request says
		time.Sleep(time.Second)
		w.Header()["Retry-After"], w.Header()["Date"] = r.Header["Retry-After"], r.Header["Date"]
		status, _ := strconv.Atoi(r.URL.Path[1:])
		w.WriteHeader(status)
	}
	send := func(by *httplimit.Transport, status, after, date string) (heard time.Duration) {
		r := httptest.NewRequest(http.MethodGet, "http://API.example.com:80/"+status, nil)
		r.Header = http.Header{"Retry-After": {after}, "Date": {date}}
		response, err := by.RoundTrip(r)
		require.NoError(t, err)
		require.Equal(t, status, strconv.Itoa(response.StatusCode), "it is returned")
		return time.Since(begin)
	}
	const day = "Fri, 01 Jan 2100 00:00:"
	quick := limiter.PerSecond(1000)
	first, second := join(quick, answer), join(quick, answer)
	for _, row := range []struct {
		status, after, date string
		want                time.Duration
	}{
		{"429", day + "21 GMT", "", 20}, {"429", day + "20 GMT", day + "00 GMT", 20}, {"429", day + "20 GMT", day + "21 GMT", 0},
		{"503", " 10 ", "", 10}, {"500", "10", "", 0}, {"429", "3600", "", 60}, {"429", "99999999999999999999", "", 60},
		{"429", "", "", 0}, {"429", "0", "", 0}, {"429", "-5", "", 0}, {"429", "1.5", "", 0}, {"429", "soon", "", 0},
	} {
		send(first, row.status, row.after, row.date)
		require.Equal(t, (2+row.want)*time.Second, send(second, "200", "", ""), row)
		time.Sleep(time.Hour)
		begin = time.Now()
	}

	// Eight answers do not add up. Who hears a longer time waits that, whatever another host says.
	var group sync.WaitGroup
	for range 8 { // no more than go-redis has connections: it would wait by a timer of another bubble
		group.Go(func() { send(first, "429", "10", "") })
	}
	time.Sleep(time.Second / 2)
	group.Go(func() { time.Sleep(time.Second / 4); send(second, "429", "10", "") })
	send(second, "503", "30", "")
	other := httptest.NewRequest(http.MethodGet, "http://other.example.com/429", nil)
	other.Header.Set("Retry-After", "1")
	_, err := second.RoundTrip(other)
	require.NoError(t, err)
	group.Wait()
	for i, by := range []*httplimit.Transport{join(quick, answer), first, second} {
		require.Equal(t, []time.Duration{12000, 13000, 32500}[i]*time.Millisecond, send(by, "200", "", ""))
	}

	// A reservation that is due meanwhile, here after 40 s, is given back and made again.
	begin = time.Now()
	first, second = join(limiter.Every(40*time.Second), answer), join(limiter.Every(40*time.Second), answer)
	group.Go(func() { send(first, "429", "60", "") })
	synctest.Wait()
	require.Equal(t, 62*time.Second, send(second, "200", "", ""))
	group.Wait()

	// A service limits a fleet that sends too much: the one who comes too early stops all.
	time.Sleep(time.Hour)
	begin = time.Now()
	limited := httplimit.New(limiter.NewLocal(), limiter.Every(10*time.Second))(ok).ServeHTTP
	fleet := []*httplimit.Transport{join(quick, limited), join(quick, limited), join(quick, limited)}
	for i := range 12 {
		require.Equal(t, time.Duration(i/2*10)*time.Second, send(fleet[i%3], []string{"200", "429"}[i%2], "", ""))
	}
}

// A request that is not sent has an error, at once if its turn would be too late. Its body is
// closed.
func TestTransportErrors(t *testing.T) {
	const key, backOff = "api.example.com", "{api.example.com}:backoff"
	gone, never := errors.New("gone"), time.Hour
	for _, c := range []struct {
		full                    string                // the key of a funnel that is full for 10 s
		down                    limiter.FailurePolicy // where there is none
		longest, canceled, took time.Duration
		want                    error
	}{
		{key, 0, 4 * time.Second, never, 0, context.DeadlineExceeded},
		{key, 0, 0, time.Second, time.Second, gone},
		{backOff, 0, 4 * time.Second, never, 0, context.DeadlineExceeded},
		{backOff, 0, 0, time.Second, time.Second, gone},
		{"", limiter.FailWithError, 0, never, 0, syscall.ECONNREFUSED},
		{"", limiter.FailClosed, 4 * time.Second, never, 4 * time.Second, context.DeadlineExceeded},
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
			r, _ := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+key+":443", body)
			_, err = (&httplimit.Transport{Limiter: l, Limit: limit, MaxWait: c.longest}).RoundTrip(r)
			require.ErrorIs(t, err, c.want)
			require.Equal(t, c.took, time.Since(begin))
			require.ErrorIs(t, body.Close(), os.ErrClosed)
		})
	}
}

// A nil pointer in Limiter is an error that says what to do, as nil is.
func TestTransportNeedsALimiter(t *testing.T) {
	for _, none := range []httplimit.Reserver{nil, (*limiter.Limiter)(nil)} {
		_, err := (&httplimit.Transport{Limiter: none, Limit: slow(1)}).RoundTrip(from("192.0.2.1"))
		require.EqualError(t, err, "httplimit: Transport.Limiter is nil: set it to a limiter.Limiter")
	}
}

// Who gives up does not wait for a Redis that hangs, once the response is there.
func TestTransportReturnsResponses(t *testing.T) {
	server := servertest.StartModule(t)
	defer server.Signal(syscall.SIGCONT)
	ctx, stop := context.WithCancel(t.Context())
	limited := service(func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Retry-After", "60"); w.WriteHeader(429) })
	hanging := service(func(w http.ResponseWriter, r *http.Request) { stop(); server.Signal(syscall.SIGSTOP); limited(w, r) })
	rdb := server.Client(t, func(options *redis.Options) { options.ReadTimeout = -1 })
	response, err := (&httplimit.Transport{Limiter: limiter.New(rdb), Limit: slow(1), Base: hanging}).RoundTrip(from("").WithContext(ctx))
	require.NoError(t, err)
	require.Equal(t, 429, response.StatusCode)
}
