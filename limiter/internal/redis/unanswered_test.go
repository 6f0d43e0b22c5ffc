// What is known of a call without an answer: whether it was certainly not sent, and whether Redis
// or this process is the reason.

package redis

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"funnel/limiter/internal/backend"
)

// A wrapper has the method of a client, and nothing else.
type wrapper struct{ Client }

func TestWhatIsKnownOfCallsWithoutAnAnswer(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:0"}) // never connects
	t.Cleanup(func() { rdb.Close() })
	auto, err := rdb.AutoPipeline()
	require.NoError(t, err)
	t.Cleanup(func() { auto.Close() })
	const sent, notSent, here = 0, 1, 2 // here: in this process
	for _, c := range []struct {
		client       Client
		err          error
		isWritten    bool
		isRepeatable bool
		want         int
	}{
		{rdb, io.EOF, false, true, sent}, // such as a refused connection: perhaps a proxy's
		{rdb, io.EOF, true, true, sent},
		{rdb, context.DeadlineExceeded, true, true, sent},
		{rdb, context.DeadlineExceeded, false, true, notSent}, // it was making a connection
		{wrapper{rdb}, context.DeadlineExceeded, false, true, sent},
		{auto, context.DeadlineExceeded, false, true, sent},

		{rdb, redis.ErrPoolTimeout, false, true, notSent | here},
		{rdb, redis.ErrPoolTimeout, true, true, sent}, // it is the repetition that found no connection
		{wrapper{rdb}, redis.ErrPoolTimeout, false, true, notSent | here},
		{auto, redis.ErrPoolTimeout, false, true, here}, // go-redis may have repeated it
		{auto, redis.ErrPoolTimeout, false, false, notSent | here},
		{auto, redis.ErrPoolExhausted, false, true, here},
		{rdb, redis.ErrPoolExhausted, false, true, notSent | here},
		{auto, redis.ErrAutoPipelineQueueFull, false, true, notSent | here},

		{rdb, redis.ErrClosed, false, true, notSent | here},
		{rdb, redis.ErrClosed, true, true, here},
		{auto, redis.ErrClosed, false, true, notSent | here},
	} {
		s := New(c.client, "", nil, nil)
		got := s.unanswered("key", fmt.Errorf("of go-redis: %w", c.err), c.isWritten, c.isRepeatable)
		what := fmt.Sprintf("%T, %v, written %v, repeatable %v: %v", c.client, c.err, c.isWritten, c.isRepeatable, got)
		require.ErrorIs(t, got, c.err, what)
		require.Equal(t, c.want&notSent != 0, errors.Is(got, backend.ErrNotSent), "%s: it was not sent", what)
		require.Equal(t, c.want&here != 0, errors.Is(got, backend.ErrInProcess), "%s: the reason is in this process", what)
	}
}
