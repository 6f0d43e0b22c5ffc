package backend_test

import (
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"funnel/limiter/internal/backend"
)

func TestErrorsNameTheKeys(t *testing.T) {
	c := &backend.Call{Rows: []backend.AskedRow{{Key: "a"}}}
	require.EqualError(t, c.Wrap(io.EOF), `limiter: key "a": EOF`)
	c.Rows = append(c.Rows, backend.AskedRow{Key: "b"})
	require.EqualError(t, c.Wrap(io.EOF), `limiter: keys ["a" "b"]: EOF`)
}

func TestSeconds(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0", time.Minute: "60", 1500 * time.Millisecond: "1.500000000", 1: "0.000000001",
		1<<63 - 1: "9223372036.854775807",
	} {
		require.Equal(t, want, backend.Seconds(d))
	}
}
