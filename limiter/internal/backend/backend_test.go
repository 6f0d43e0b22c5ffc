package backend_test

import (
	"errors"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"funnel/gcra"
	"funnel/internal/call"
	"funnel/limiter/internal/backend"
	"funnel/slots"
)

func TestClassesOfErrors(t *testing.T) {
	err := backend.Unavailable(io.EOF)
	require.EqualError(t, err, "EOF")
	require.ErrorIs(t, err, backend.ErrUnavailable)
	require.ErrorIs(t, err, io.EOF)
	require.NotErrorIs(t, err, backend.ErrInvalid)
	require.ErrorIs(t, backend.Invalid(io.EOF), backend.ErrInvalid)
	require.NotErrorIs(t, errors.New("EOF"), backend.ErrUnavailable)
}

func TestErrorsNameTheKeys(t *testing.T) {
	c := &backend.Call{Rows: []backend.Row{{Key: "a"}}}
	require.EqualError(t, c.Wrap(io.EOF), `limiter: key "a": EOF`)
	c.Rows = append(c.Rows, backend.Row{Key: "b"})
	require.EqualError(t, c.Wrap(io.EOF), `limiter: keys ["a" "b"]: EOF`)
}

func TestSeconds(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0", time.Minute: "60", 1500 * time.Millisecond: "1.500000000", 1: "0.000000001", 1<<63 - 1: "9223372036.854775807",
	} {
		require.Equal(t, want, backend.Seconds(d))
	}
}

// A reply has the decision on each row, in the order of the call.
func TestReplyHasTheRowsOfACall(t *testing.T) {
	rate, err := gcra.NewRate(15, 30, int64(time.Minute))
	require.NoError(t, err)
	tokens, err := rate.Request(5)
	require.NoError(t, err)
	slot, err := slots.NewRequest(2, int64(time.Second))
	require.NoError(t, err)
	c := &backend.Call{Operation: call.Reserve, Receipt: gcra.NoReceipt, Rows: []backend.Row{
		{Key: "slots", Kind: call.Slots, Slot: slot}, {Key: "tokens", Kind: call.Funnel, Tokens: tokens},
	}}
	rows := c.Undecided()
	now := int64(1_700_000_000_000_000_000)
	rows[0].Slots.State = slots.State{Own: now/1e6 + 500, Running: 1}
	_, err = c.Operation.Apply(rows, now, 0, c.Receipt)
	require.NoError(t, err)
	reply := backend.NewReply(backend.Local, rows)
	require.Equal(t, backend.RowReply{Held: true, Remaining: 1, ResetAfter: time.Second}, *reply.Row(0))
	require.Equal(t, backend.RowReply{Remaining: 10, ResetAfter: 10 * time.Second}, *reply.Row(1))
	require.False(t, reply.Limited)

	rows[1].Funnel.TAT = now + int64(30*time.Second)
	_, err = c.Operation.Apply(rows, now, 0, c.Receipt)
	require.NoError(t, err)
	reply = backend.NewReply(backend.Local, rows)
	require.True(t, reply.Limited, "one row limits the call")
	require.Equal(t, []bool{false, true}, []bool{reply.Row(0).Limited, reply.Row(1).Limited})
	require.Equal(t, 10*time.Second, reply.Row(1).Wait)
}
