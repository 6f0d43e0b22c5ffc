package nodes

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"funnel/internal/call"
	"funnel/internal/decision"
	"funnel/limiter/internal/backend"
)

// refusalOf returns a part of one row that was refused, or allowed if it says not to wait.
func refusalOf(key string, wait time.Duration, err error) *part {
	p := &part{asked: true, err: err}
	p.call = backend.Call{Operation: call.Reserve, Rows: []backend.AskedRow{{Key: key, Kind: call.Slots}}}
	p.reply.Limited = wait != 0
	p.reply.First = backend.RowReply{Limited: wait != 0, Wait: wait}
	return p
}

// A refusal is known if the key has refused until the same instant before: then nobody gave back in
// between, and took again. Until then the part is asked first.
func TestRefusals(t *testing.T) {
	const never, late = time.Duration(decision.Never), 20 * time.Millisecond
	down := backend.Unavailable(fmt.Errorf("no answer"))
	now := time.Duration(0)
	r := refusals{now: func() time.Duration { return now }}
	for _, step := range []struct {
		name    string
		at      time.Duration
		wait    time.Duration // 0: allowed
		err     error
		isKnown bool
		likely  time.Duration // until when the part is asked first, if at all
	}{
		{"allowed", 0, 0, nil, false, 0},
		{"refused for the first time", 0, time.Hour, nil, false, time.Hour},
		{"refused until the same instant", time.Second, time.Hour - time.Second, nil, true, time.Hour},
		{"the answer took some milliseconds", 2 * time.Second, time.Hour - 2*time.Second + late, nil, true,
			time.Hour + late},
		{"another caller has taken it meanwhile", 3 * time.Second, time.Hour, nil, false, time.Hour + 3*time.Second},
		{"allowed again", 4 * time.Second, 0, nil, false, 0},
		{"refused after that", 5 * time.Second, time.Minute, nil, false, time.Minute + 5*time.Second},
		{"refused for ever", 6 * time.Second, never, nil, true, 0},
		{"no answer", 7 * time.Second, 0, down, false, 8 * time.Second},
	} {
		now = step.at
		isKnown := r.note(refusalOf("key", step.wait, step.err))
		require.Equal(t, step.isKnown, isKnown, step.name)
		for _, c := range []struct {
			at     time.Duration
			likely bool
		}{{max(step.likely-1, 0), step.likely > 0}, {step.likely, false}} {
			now = c.at
			likely, others := r.separate([]*part{{call: refusalOf("key", 0, nil).call}}, time.Now())
			require.Equal(t, c.likely, len(likely) == 1, "%s: asked first, at %v", step.name, c.at)
			require.Len(t, others, 1-len(likely), step.name)
		}
		now = step.at
	}
}

// Only so many keys are remembered, however long each of them refuses.
func TestRefusalsAreBounded(t *testing.T) {
	r := refusals{now: func() time.Duration { return 0 }}
	most := 0
	for i := range 3 * maxRefusals {
		r.note(refusalOf(fmt.Sprint(i), time.Hour, nil))
		most = max(most, r.until.Len())
	}
	require.Equal(t, maxRefusals, most)
}
