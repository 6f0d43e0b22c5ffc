// An hour of work in a moment, without Redis: in a bubble of testing/synctest, a Limiter of
// NewLocal goes by the bubble's clock.

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"funnel/limiter"
)

// A memory is a queue in memory.
type memory struct {
	mutex    sync.Mutex
	waiting  []job
	finished []string
}

func (m *memory) take(ctx context.Context) (job, error) {
	for ctx.Err() == nil {
		m.mutex.Lock()
		if len(m.waiting) > 0 {
			j := m.waiting[0]
			m.waiting = m.waiting[1:]
			m.mutex.Unlock()
			return j, nil
		}
		m.mutex.Unlock()
		pause(ctx, time.Second)
	}
	return job{}, context.Cause(ctx)
}

func (m *memory) finish(_ context.Context, j job) error {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.finished = append(m.finished, j.ID)
	return nil
}

func (m *memory) putBack(_ context.Context, _, remains job) error {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.waiting = append([]job{remains}, m.waiting...)
	return nil
}

// A mailServer notes when it got how many mails.
type mailServer struct {
	mutex  sync.Mutex
	began  time.Time
	pieces []piece
	fail   func(j job) error // or nil
}

type piece struct {
	at    time.Duration
	id    string
	mails int
}

func (m *mailServer) send(_ context.Context, j job, mails int) error {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if m.fail != nil {
		err := m.fail(j)
		if err != nil {
			return err
		}
	}
	m.pieces = append(m.pieces, piece{at: time.Since(m.began), id: j.ID, mails: mails})
	return nil
}

// For an hour, twenty workers have more to do than the mail server accepts. It gets what it
// accepts, and nothing more in any stretch of time: 8 at once, and 4 a second.
func TestAnHourOfWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		q := &memory{}
		server := &mailServer{began: time.Now()}
		for i := range 10_000 {
			q.waiting = append(q.waiting, job{ID: fmt.Sprint(i), Mails: 1 + rand.IntN(20)})
		}
		w := &worker{limiter: limiter.NewLocal(), queue: q, send: server.send}
		var running sync.WaitGroup
		for range 20 {
			running.Go(func() {
				pause(ctx, rand.N(time.Minute))
				w.run(ctx)
			})
		}
		running.Wait()

		total := 0
		for first := range server.pieces {
			total += server.pieces[first].mails
			mails := 0
			for _, last := range server.pieces[first:min(first+200, len(server.pieces))] {
				mails += last.mails
				elapsed := last.at - server.pieces[first].at
				require.LessOrEqual(t, mails, 8+int(4*elapsed.Seconds()), "mails in %v, from %v on", elapsed,
					server.pieces[first].at)
			}
		}
		require.InDelta(t, 4*3600, total, 4*60+8, "the first worker may begin after a minute")
	})
}

// A job with more mails than the funnel holds is sent in pieces, and finished once.
func TestLargeJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &memory{}
		server := &mailServer{began: time.Now()}
		w := &worker{limiter: limiter.NewLocal(), queue: q, send: server.send}
		require.NoError(t, w.do(t.Context(), job{ID: "newsletter", Mails: 20}))
		require.Equal(t, []piece{
			{at: 0, id: "newsletter", mails: 8},
			{at: 2 * time.Second, id: "newsletter", mails: 8},
			{at: 3 * time.Second, id: "newsletter", mails: 4},
		}, server.pieces)
		require.Equal(t, []string{"newsletter"}, q.finished)
	})
}

// A worker that is told to end while it waits puts its job back, with the mails that remain.
func TestJobsGoBackWhenTheProcessEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		q := &memory{waiting: []job{{ID: "newsletter", Mails: 20}}}
		server := &mailServer{began: time.Now()}
		w := &worker{limiter: limiter.NewLocal(), queue: q, send: server.send}
		time.AfterFunc(time.Second, cancel)
		w.run(ctx)
		require.Equal(t, time.Second, time.Since(server.began))
		require.Equal(t, []job{{ID: "newsletter", Mails: 12}}, q.waiting)
		require.Empty(t, q.finished)
	})
}

// A job that fails goes back, and is tried again after a pause.
func TestJobsThatFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		q := &memory{waiting: []job{{ID: "a", Mails: 1}}}
		server := &mailServer{began: time.Now()}
		failures := 0
		server.fail = func(job) error {
			failures++
			if failures <= 3 {
				return errors.New("421 try again later")
			}
			return nil
		}
		w := &worker{limiter: limiter.NewLocal(), queue: q, send: server.send}
		w.run(ctx)
		require.Equal(t, []piece{{at: 3 * time.Second, id: "a", mails: 1}}, server.pieces)
		require.Equal(t, []string{"a"}, q.finished)
	})
}
